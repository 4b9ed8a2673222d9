"""Kinds of payloads: each module turns the text of one kind into a graph of tasks."""
