"""Jobs, what they ask for, and their graph."""
