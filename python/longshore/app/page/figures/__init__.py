"""Figures of the page: pure functions from numbers to SVG."""
