"""Checks of a configuration: schema, variables, sections, secrets, YAML 1.1; and explanations of its values."""
