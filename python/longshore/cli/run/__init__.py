"""Commands that make and drive runs."""
