"""Tables, and the conditions that a query puts on their columns."""
