"""Questions to HTCondor's daemons, and their answers."""
