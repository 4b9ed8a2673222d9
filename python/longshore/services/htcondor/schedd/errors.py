"""Maps exceptions of HTCondor's bindings, all of one class, to errors that say who must act."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from longshore.errors import (
    LongshoreError,
    ServiceError,
    SubmissionRefusedError,
    SubmissionUncertainError,
    UnreachableError,
)

_REFUSED: Final = (
    "AUTHENTICATE:",
    "DENIED",
    "Failed to authenticate",
    "PERMISSION_DENIED",
    "not authorized",
    "No auth methods",
)
_ABSENT: Final = (
    "Failed to connect",
    "Failed communication",
    "Failed to fetch ads from",
    "Unable to locate",
    "unable to locate",
    "Can't find address",
    "communication error",
    "Connection refused",
    "timed out",
)
_AMID: Final = ("Unable to commit",)
"""Messages of a schedd that went away during a submission, or refused at the commit."""


@contextmanager
def map_errors(what: str, *, refused: str = "") -> Iterator[None]:
    """Raise exceptions of the bindings as `LongshoreError`.

    `what` names the daemon that the body talks to. `refused` names what the body submits; empty for a query.
    """
    try:
        yield
    except LongshoreError:
        raise
    except Exception as error:
        # The bindings raise one class of their own for all failures, and others for invalid arguments.
        raise to_error(error, what, refused) from error


def to_error(error: Exception, what: str, refused: str) -> LongshoreError:
    """The `LongshoreError` for an exception of the bindings; parameters as in `map_errors`."""
    said = " ".join(str(error).split()) or type(error).__name__
    if any(word in said for word in _REFUSED):
        return ServiceError(
            f"{what} does not accept who you are: {said}",
            hint="'condor_ping -type schedd WRITE' shows what it makes of you. Daemons older than 24 want "
            "SEC_FS_ENFORCE_CHANNEL_BINDING = False at the client.",
        )
    if refused and any(word in said for word in _AMID):
        return SubmissionUncertainError(f"{what} could not commit {refused}: {said}")
    if any(word in said for word in _ABSENT) or said.rstrip().endswith("errmsg="):
        # For a collector that rejects the user, the bindings only report no answer.
        return UnreachableError(
            f"{what} does not answer: {said}",
            hint="'condor_status -any' shows what of the pool does, and 'condor_ping -type collector READ' whether it "
            "accepts who you are.",
        )
    if refused:
        return SubmissionRefusedError(f"{what} does not take {refused}: {said}")
    return ServiceError(f"{what} says: {said}")
