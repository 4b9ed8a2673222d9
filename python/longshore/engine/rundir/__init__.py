"""What the engine reads and writes, mostly in the run directory."""
