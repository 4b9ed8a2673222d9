"""Commands that measure runs, and advise on their requests."""
