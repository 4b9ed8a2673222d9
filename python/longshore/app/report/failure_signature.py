"""Failure signature: reduces the last lines of a log to what logs of the same fault share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_ERROR_WORDS: Final = re.compile(
    r"error|exception|fatal|fail|abort|kill|cannot|can't|could not|unable|not found|no such|denied|refused|"
    r"segmentation|overflow|timed? ?out|traceback|panic|assert|invalid|out of memory|no space|quota|core dumped",
    re.IGNORECASE,
)
_MAX_LENGTH: Final = 200
_PLACEHOLDERS: Final = (
    # Order matters: times and paths contain numbers.
    (
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d\S*"
        ),
        "<time>",
    ),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"(?:(?<![\w.])~?|\b[\w.-]+)(?:/[\w.@%+=:,~<>-]+)+/?"), "<path>"),
    (re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def signature(lines: Sequence[str]) -> str:
    """Return the last line that reports an error, else the last line, without job-specific parts."""
    return normalize(error_line(lines))


def error_line(lines: Sequence[str]) -> str:
    """Return the last line that reports an error, else the last line; empty without lines."""
    telling = (line for line in reversed(lines) if _ERROR_WORDS.search(line))
    return next(telling, lines[-1] if lines else "").strip()[:_MAX_LENGTH]


def normalize(text: str) -> str:
    """Replace times, identifiers, addresses, paths and numbers by placeholders."""
    for pattern, word in _PLACEHOLDERS:
        text = pattern.sub(word, text)
    return text.strip()[:_MAX_LENGTH]
