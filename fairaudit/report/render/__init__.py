"""Document -> text: one file for each place where a report is read."""
