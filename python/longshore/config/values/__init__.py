"""Layers, their merge, and the search for a value."""
