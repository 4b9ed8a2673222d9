"""Queries and commands to HTCondor's daemons, through its Python bindings."""
