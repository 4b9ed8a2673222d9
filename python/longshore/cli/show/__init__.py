"""Records as text, JSON or graphs."""
