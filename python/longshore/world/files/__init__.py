"""Atomic writes, locks, permissions, links, and the presence and fingerprints of files."""
