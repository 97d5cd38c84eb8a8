"""Models that know nothing of privacy."""
