"""What follows from the end of an attempt."""
