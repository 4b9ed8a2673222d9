"""Start of an engine: its command line, its process, which may stand by, and the wait for its life."""
