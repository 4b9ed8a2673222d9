"""Batch kit: what a service needs for any workload manager that takes scripts and job arrays through programs.

A workload manager is described by a `longshore.services.batch.dialect.Dialect`; the kit does the rest.
"""
