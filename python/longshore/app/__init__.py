"""Use cases of the application, one module per command or Python call."""
