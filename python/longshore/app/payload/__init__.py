"""What a payload is made of: its tasks, pipeline and files."""
