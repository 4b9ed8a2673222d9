"""The engine's files in the run directory: journal, job table, snapshots, interventions, locks and logs."""
