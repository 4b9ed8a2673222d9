"""Sites as operators describe them: profiles, limits and inherited environment; and which of them match a run."""
