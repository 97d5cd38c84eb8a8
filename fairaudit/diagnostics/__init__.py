"""Observers of training; they write nothing back."""
