"""Executor of the kit: submits batches, watches them, and determines how their members ended."""
