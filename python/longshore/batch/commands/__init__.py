"""Programs of a workload manager: calls, their pace, and calls that are repeated until they succeed."""
