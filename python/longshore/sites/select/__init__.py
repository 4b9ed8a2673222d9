"""Selects one of the sites that match, by its state (pure)."""
