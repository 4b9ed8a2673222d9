"""Sites as operators describe them: profiles, limits, setup and inherited environment (pure)."""
