"""Searches for users' regular expressions in logs, bounded in processor time; apart, because few commands search."""

from __future__ import annotations

import marshal
import re
import signal
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from typing import AnyStr, Final

from longshore.system.host import CpuLimitError, cpu_limit
from longshore.system.processes import processes

_SHORT: Final = 16384
"""Length that one search takes at most tenths of a second for.

Python's matcher looks for a timer's signal only in long attempts to match. An expression such as ``[^x]*x`` makes short
ones, one from each character: their time grows with the square of the length, and a megabyte takes minutes.
"""
_REPEATS: Final = re.compile(r"[*+{]")
_REPEATED_GROUP: Final = re.compile(r"\)\s*[*+{]")
"""End of a group that is repeated.

With two of them, repetitions may nest three deep, as in ``((x+)+)+``: there the matcher looks for signals seldom, and
exceeds a limit by seconds on a line of 40 characters. Blanks count, since the flag `re.VERBOSE` ignores them.
"""
_PIPE, _DEVNULL = -1, -3
"""As in `subprocess`, which takes time to import."""
_PROGRAM: Final = """
import marshal, re, signal, sys
pattern, flags, texts, seconds, is_last = marshal.loads(sys.stdin.buffer.read())
signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
regex = re.compile(pattern, flags)
starts = []
for text in texts:
    start = -1
    for match in regex.finditer(text):
        start = match.start()
        if not is_last:
            break
    starts.append(start)
print(*starts)
"""


def find_match(
    pattern: re.Pattern[AnyStr], text: AnyStr, *, seconds: float, is_last: bool = False
) -> re.Match[AnyStr] | None:
    """Return the first match in a text, or the last.

    Raises
    ------
    CpuLimitError
        The search took more processor time than `seconds`.
    """
    if _can_be_interrupted(pattern, (text,)):
        with cpu_limit(seconds):
            return _last(pattern, text) if is_last else pattern.search(text)
    (start,) = _search_apart(pattern, (text,), seconds, is_last=is_last)
    return pattern.match(text, start) if start >= 0 else None


def select_matching(pattern: re.Pattern[AnyStr], texts: Sequence[AnyStr], *, seconds: float) -> list[AnyStr]:
    """Return the texts with a match; raises `CpuLimitError` as `find_match` does, for all of them together."""
    if _can_be_interrupted(pattern, texts):
        with cpu_limit(seconds):
            # No `filter`: Python handles signals only between its own instructions.
            return [text for text in texts if pattern.search(text)]
    starts = _search_apart(pattern, texts, seconds, is_last=False)
    return [text for text, start in zip(texts, starts, strict=True) if start >= 0]


def _can_be_interrupted(pattern: re.Pattern[AnyStr], texts: Iterable[AnyStr]) -> bool:
    source = repr(pattern.pattern)
    if not _REPEATS.search(source):
        # The time grows with the length alone.
        return True
    return len(_REPEATED_GROUP.findall(source)) < 2 and max(map(len, texts), default=0) <= _SHORT


def _last(pattern: re.Pattern[AnyStr], text: AnyStr) -> re.Match[AnyStr] | None:
    # Of a million matches, all but the last are dropped.
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _search_apart(
    pattern: re.Pattern[AnyStr], texts: Sequence[AnyStr], seconds: float, *, is_last: bool
) -> Sequence[int]:
    """Return where the match in each text starts, or -1, from a process that the kernel ends in time."""
    request = marshal.dumps((pattern.pattern, pattern.flags, tuple(texts), seconds, is_last))
    process = processes.popen([sys.executable, "-I", "-S", "-c", _PROGRAM], stdin=_PIPE, stdout=_PIPE, stderr=_DEVNULL)
    answer, _ = process.communicate(request)
    if process.returncode == -signal.SIGVTALRM:
        raise CpuLimitError(f"it took more than {seconds:g} s of processor time")
    if process.returncode:
        raise CpuLimitError(f"its process ended with {process.returncode}")
    return [int(start) for start in answer.split()]
