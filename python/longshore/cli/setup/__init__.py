"""Commands about configuration, sites, services and shell completion."""
