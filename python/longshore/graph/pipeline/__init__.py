"""From declarations to tasks and their files."""
