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
_CONSEQUENCE: Final = re.compile(r"(?:[\w.]+\.)?(?:MPGraphExecutorError|CalledProcessError)\b")
"""Exceptions by which a program reports the failure of a task or a program that it ran."""
_EXCEPTION: Final = re.compile(r"(?P<exception>[A-Za-z_][\w.]*(?:Error|Exception)\b(?::.*|$))")
_TOLD_EXCEPTION: Final = re.compile(r"\b[Ee]xception (?P<exception>[A-Za-z_][\w.]*(?:Error|Exception)\b:.+)$")
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
    # Not the end of an element, such as </b>.
    (re.compile(r"(?:(?<![\w.<])~?|\b[\w.-]+)(?:/[\w.@%+=:,~<>-]+)+/?"), "<path>"),
    (re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def error_line(lines: Sequence[str]) -> str:
    """Return the last line that reports an error, else the last line; empty without lines.

    If that line only says that something else failed, the last exception before it is returned.
    """
    telling = (line for line in reversed(lines) if _ERROR_WORDS.search(line))
    line = next(telling, lines[-1] if lines else "").strip()
    if _CONSEQUENCE.match(line):
        causes = (cause for each in reversed(lines) if (cause := _exception(each)) and not _CONSEQUENCE.match(cause))
        line = next(causes, line)
    return line[:_MAX_LENGTH]


def _exception(line: str) -> str:
    """Return the exception with which a traceback ends, or that a line of a log tells; empty if there is none."""
    found = _EXCEPTION.match(line) or _TOLD_EXCEPTION.search(line)
    return found["exception"].strip() if found else ""


def normalize(text: str) -> str:
    """Replace times, identifiers, addresses, paths and numbers by placeholders."""
    for pattern, word in _PLACEHOLDERS:
        text = pattern.sub(word, text)
    return text.strip()[:_MAX_LENGTH]
