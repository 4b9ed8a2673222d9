"""Notices: tells people of the start, the failures and the end of a run, by commands and webhooks."""
