"""Commands about configuration, sites and the shell."""
