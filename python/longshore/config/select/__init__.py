"""Which tasks and labels a rule is about."""
