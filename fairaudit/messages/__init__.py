"""What a reader of a report must know: one class for each message, with its sentence."""
