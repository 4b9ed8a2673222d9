"""Fakes for tests of a plugin, shipped with the package."""
