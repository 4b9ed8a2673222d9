"""What the programs of any batch system print: replies to submissions, numbers, amounts and times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from longshore.system.programs import ProgramResult


class SubmitOutcome(StrEnum):
    """Meaning of the reply to a submission."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """The request itself is refused: it names unknown things or exceeds what exists, and always will."""
    CLOSED = "closed"
    """A condition of the centre keeps such jobs out, as a drained partition does; others may be accepted."""
    THROTTLED = "throttled"
    """A condition of the centre keeps all jobs out for now."""
    UNEXPLAINED = "unexplained"
    """Nothing tells whether the refusal will pass."""
    UNREACHABLE = "unreachable"
    """Nothing was decided, as no controller was reached: a later submission may be accepted."""
    TOO_LARGE = "too large"
    """The batch and the queued jobs exceed a limit: a smaller batch may be accepted."""
    UNSURE = "unsure"
    """Unknown whether the job was accepted."""
    BROKEN = "broken"
    """Unknown as well, because a connection broke: a job that was accepted appears soon."""

    @property
    def is_passing(self) -> bool:
        """Whether a manager that takes nothing at this moment may take the same in a moment."""
        return self in {SubmitOutcome.THROTTLED, SubmitOutcome.UNREACHABLE}


class SubmissionReply(msgspec.Struct, frozen=True):
    """Reply to a submission; `id` is the job's if it was accepted."""

    outcome: SubmitOutcome
    id: int | None = None


class SubmitReplies(msgspec.Struct, frozen=True):
    """What the program that submits prints.

    `accepted` matches the line of a job that was accepted, with its id in the first group. `errors` has the meaning of
    error messages: the first regular expression that is found counts, in either case of letters. What a message has in
    double quotes or angle brackets does not count: users choose those names.
    """

    accepted: re.Pattern[str]
    errors: Sequence[tuple[SubmitOutcome, str]]

    def read(self, answer: ProgramResult) -> SubmissionReply:
        """Return the meaning of an answer; lines of other programs may surround the program's own."""
        # An id says more than the exit status, which options such as ``--wait`` change.
        lines = f"{answer.err}\n{answer.out}".splitlines()
        if found := [match for line in lines if (match := self.accepted.fullmatch(line.strip()))]:
            return SubmissionReply(SubmitOutcome.ACCEPTED, int(found[-1][1]))
        if answer.is_missing:
            return SubmissionReply(SubmitOutcome.UNREACHABLE)
        if answer.ok or answer.status is None or answer.status < 0:
            # A program that a signal ended may have submitted the job before.
            return SubmissionReply(SubmitOutcome.UNSURE)
        return SubmissionReply(self.classify(answer.err or answer.out))

    def classify(self, message: str) -> SubmitOutcome:
        """Return the meaning of an error message; one that no table knows may pass."""
        text = _NAMES.sub('""', message)
        found = (outcome for outcome, pattern in self.errors if re.search(pattern, text, re.IGNORECASE))
        outcome = next(found, SubmitOutcome.UNEXPLAINED)
        if outcome in {SubmitOutcome.REFUSED, SubmitOutcome.UNEXPLAINED} and _PASSING.search(text):
            # A filter of the site that speaks of the moment ends with a word for a refused request.
            return SubmitOutcome.THROTTLED
        return outcome


_NAMES: Final = re.compile(r'"[^"\n]*"|<[^<>\n]*>')
_PASSING: Final = re.compile(
    r"temporar(il)?y|try again|retry later|no space left|disk (is )?full|quota exceeded|maintenance"
    r"|cannot allocate memory|too many open files",
    re.IGNORECASE,
)
"""What filters of a site and the system say of a condition that passes, on any workload manager."""


# Numbers, amounts and times.


_MOST_DIGITS: Final = 18
"""Digits of the largest number: JSON holds it exactly, and Python converts it."""
_MOST_BYTES: Final = 2**63 - 1
BINARY_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {"": 1} | {sign: 1024**power for power, pair in enumerate(("Kk", "Mm", "Gg", "Tt", "Pp", "Ee"), 1) for sign in pair}
)
"""Bytes per letter of a unit, in powers of 1024."""
_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([KMGTPE]?)(?:B|bytes?)?", re.IGNORECASE)
_DURATION: Final = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{1,9})?)")
_SPAN: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
_MOST_TASKS: Final = 4_000_000
"""Largest index of an array; no batch system has more, so that a damaged answer fills no memory."""


def parse_number(text: str) -> int | None:
    """Parse a whole number; ``None`` for other text, and for more digits than any such number has."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def parse_size(text: str, units: Mapping[str, int] = BINARY_UNITS) -> int | None:
    """Parse bytes from ``113561K``, ``1.50G``, ``432.918MB`` or ``5.2 Gbytes``; ``None`` for no amount.

    `units` has the bytes per letter; the empty one stands for a number without a unit.
    """
    found = _SIZE.fullmatch(text.strip())
    factor = units.get(found[2]) if found else None
    amount = None if found is None or factor is None else round(float(found[1]) * factor)
    return None if amount is None or amount > _MOST_BYTES else amount


def parse_duration(text: str) -> float | None:
    """Parse seconds from ``1-02:03:04``, ``00:00:07`` or ``00:01.250``; ``None`` for no such time."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def parse_time(text: str, *forms: str) -> float | None:
    """Parse local time to seconds since the epoch; ``None`` for other text.

    The time is in ISO 8601, as ``2026-11-20T14:06:30``, or in one of the `forms` of `datetime.datetime.strptime`.
    """
    for form in ("", *forms):
        try:
            plain = text.strip()
            moment = datetime.strptime(plain, form) if form else datetime.fromisoformat(plain)  # noqa: DTZ007
            return moment.timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def seconds_between(begin: float | None, end: float | None) -> float | None:
    """Return the seconds from one moment to a later one; ``None`` if either is unknown, or they are the wrong way."""
    return None if begin is None or end is None or end < begin else end - begin


def parse_spans(text: str) -> Iterator[int]:
    """Expand ``3``, ``5,6`` or ``0-2,5-9:2`` to indices; parts that are no such span are left out."""
    for span in text.split(","):
        if (found := _SPAN.fullmatch(span.strip())) and int(found[2] or 0) <= _MOST_TASKS:
            first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
            yield from range(first, last + 1, step or 1)


def plain_lines(*texts: str) -> list[str]:
    """Return the lines of texts without blanks around them; blank ones are left out."""
    return [plain for text in texts for line in text.splitlines() if (plain := line.strip())]
