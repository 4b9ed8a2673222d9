"""Encoding of records as JSON Lines, and decoding."""
