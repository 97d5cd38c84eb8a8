"""What a report finds: one class for each finding, with its sentence, and what to do about it."""
