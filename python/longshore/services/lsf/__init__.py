"""LSF as a service; experimental, as it was only tested with programs that print recorded replies."""
