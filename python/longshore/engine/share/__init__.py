"""How the runs of a user share one machine."""
