"""The jobs of a workflow as they run: their commands, scripts and staged files, the same on every service."""
