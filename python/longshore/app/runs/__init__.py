"""Submitted runs: how they are found, opened and followed."""
