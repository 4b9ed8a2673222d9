"""Sharing of one machine, and of concurrency limits, among a user's runs."""
