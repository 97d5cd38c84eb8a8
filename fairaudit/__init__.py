"""fairaudit: what differential privacy costs each group of people, and why."""

__version__ = "0.1.0"
