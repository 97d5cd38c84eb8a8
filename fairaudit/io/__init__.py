"""Files and streams of this process."""
