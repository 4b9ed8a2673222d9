"""Runs on disk, and what the user's state folder knows of them."""
