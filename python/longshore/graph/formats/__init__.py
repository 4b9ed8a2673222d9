"""Graphs that other programs made."""
