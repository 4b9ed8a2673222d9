"""Archives of directories: their names, and their format."""
