"""Training methods behind one protocol."""
