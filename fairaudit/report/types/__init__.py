"""What a report holds: plain data, checked where it is read."""
