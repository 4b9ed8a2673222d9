"""Commands that change runs: cancel, interventions, registry."""
