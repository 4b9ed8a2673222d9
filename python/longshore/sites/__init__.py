"""Where jobs run, as operators describe it (pure)."""
