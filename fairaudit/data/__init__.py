"""From files to tensors-to-be: reading, labels and groups, splits, encoding."""
