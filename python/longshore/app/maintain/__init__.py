"""Upkeep of an installation and its runs: diagnosis, removal of files, archives."""
