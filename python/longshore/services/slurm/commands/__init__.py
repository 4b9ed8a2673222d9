"""Slurm's programs: client, output parsers, job states, poll intervals and pending commands."""
