"""Records as lines of JSON."""
