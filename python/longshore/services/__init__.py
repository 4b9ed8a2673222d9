"""Services, one folder each, strangers to each other."""
