"""Which trainings, with which numbers, at which epsilon; before any training."""
