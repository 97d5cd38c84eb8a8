"""The sections of a report: a file for each topic, with the charts that only it shows."""
