"""What a folder may add to audits, and which folders do: each can be taken out."""
