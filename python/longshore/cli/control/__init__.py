"""Commands that change runs."""
