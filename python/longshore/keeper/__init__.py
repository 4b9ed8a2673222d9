"""Keeper: the program that runs attempts on a host for an engine or a pilot, and its orders and records."""
