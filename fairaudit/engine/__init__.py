"""The training engine: one step, one primitive, no method names."""
