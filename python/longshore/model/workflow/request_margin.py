"""Margin of suggested requests over what was measured; without other imports, as commands show it in their help."""

from __future__ import annotations

from typing import Final

DEFAULT_MARGIN: Final = 1.2
"""Factor on what was measured."""
MIN_MARGIN: Final = 1.0
MAX_MARGIN: Final = 10.0
