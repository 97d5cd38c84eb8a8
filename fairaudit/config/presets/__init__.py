"""Settings of published experiments."""
