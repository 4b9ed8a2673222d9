"""Values of dimensions, and rows that satisfy all of them."""
