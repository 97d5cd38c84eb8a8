"""The options, where their values come from, and presets."""
