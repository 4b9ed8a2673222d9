"""Commands that change a live or ended run."""
