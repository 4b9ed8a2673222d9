"""The engine's files in the run directory: job table, snapshots, interventions, locks and logs."""
