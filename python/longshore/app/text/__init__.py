"""Text for terminals and for `print`: lines of styled spans, and tables of them."""
