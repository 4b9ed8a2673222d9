"""How a DAG reaches the schedd, once."""
