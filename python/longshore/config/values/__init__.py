"""Configuration layers, their merge, the search for a key, interpolation of variables, and units."""
