"""Records about sites: their state between runs, and why a run is at its site."""
