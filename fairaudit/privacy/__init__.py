"""Privacy events, their accounting, and the only noise there is."""
