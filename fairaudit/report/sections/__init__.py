"""The sections of a report: a file for each, with one function ``section``."""
