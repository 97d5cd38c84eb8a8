"""What a report is made of: types that are measured, stored, read again and printed."""
