"""What a pipeline's YAML declares."""
