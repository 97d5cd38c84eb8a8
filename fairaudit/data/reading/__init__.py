"""What a file or frame holds: tables, folders, archives and images, as columns of Arrow."""
