"""Scripts of batches: what a batch system's dialect renders, and the writer that asks it for lines of options."""
