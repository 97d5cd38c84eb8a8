"""Membership inference: who can be told to have been trained on, by group."""
