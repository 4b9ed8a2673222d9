"""The journal of a run: its lives, their chain and checks, and their readers."""
