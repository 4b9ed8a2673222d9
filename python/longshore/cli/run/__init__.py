"""Commands that make and drive runs: submit, stages, init, restart, resume."""
