"""Formatting of results as text, tables and graphs."""
