"""Quarantine: published forms, kept for reproduction. Nothing here can produce an epsilon."""
