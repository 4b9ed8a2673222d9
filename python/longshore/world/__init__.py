"""Access to the outside: files, YAML, programs, processes, run directories, the registry and the clock."""
