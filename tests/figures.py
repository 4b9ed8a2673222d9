"""Figures that tests measure and print after the tests; none of them makes a test fail."""

from typing import Final

FIGURE: Final = "figure"
"""Name of a line of text among the properties that a test reports."""
