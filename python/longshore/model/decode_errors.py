"""Errors that a decoder raises for damaged content; every place that decodes a file treats all of them alike."""

from __future__ import annotations

from typing import Final

import msgspec

DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, MemoryError)
"""Wrong content, bytes that are not UTF-8 (a `ValueError`), deep nesting, numbers and sizes that do not fit."""
