"""Ping of a cluster: what it reports on itself, and checks of a site's settings against it."""
