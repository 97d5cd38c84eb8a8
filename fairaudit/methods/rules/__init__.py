"""Clipping rules, one paper's rule per file."""
