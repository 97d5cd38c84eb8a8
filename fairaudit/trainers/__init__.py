"""Models that the user's own code trains: what it is handed, what comes back, what it claims."""
