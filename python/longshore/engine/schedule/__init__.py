"""Scheduling: which ready job starts next, within limits, pools and lanes."""
