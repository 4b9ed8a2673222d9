"""Files, locks and permissions."""
