"""The doors to the world: YAML files, shipped data, programs, run directories, the registry and the clock."""
