"""Upkeep of an installation and of its runs: what is wrong, what may go, and what is kept for good."""
