"""Replies to submissions: what the output of the program that submits means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
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
