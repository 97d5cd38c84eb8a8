"""The search for settings: a public prior, a score, and the chance of each candidate.

Docs/tuning.md.
"""
