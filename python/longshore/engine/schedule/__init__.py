"""Which job starts next."""
