"""The records of Longshore: frozen nouns with their units and rules, and nothing that touches the world."""
