"""Readers of users' files: YAML, site profiles, graph files and quantum graphs."""
