"""The search for settings: a public prior, a score, the chance of each one: docs/tuning.md."""
