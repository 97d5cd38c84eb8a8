"""Pure functions of predictions."""
