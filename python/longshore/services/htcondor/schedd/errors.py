"""Maps exceptions of HTCondor's bindings, all of one class, to errors that say who must act."""

from __future__ import annotations

import re
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
_PASSING: Final = re.compile(
    r"MAX_JOBS_SUBMITTED|MAX_JOBS_PER_OWNER|no space left|quota exceeded|disk is full|temporar(il)?y|try again"
    r"|shutting down|is draining|cannot allocate memory",
    re.IGNORECASE,
)
"""A condition of the schedd (``src/condor_schedd.V6/qmgmt.cpp``) or its host: it may take the same later."""
_COMMIT_FAILED: Final = ("Unable to commit",)
"""Messages of a schedd that went away during a submission, or refused at the commit."""


@contextmanager
def map_errors(daemon: str, *, request: str = "") -> Iterator[None]:
    """Raise exceptions of the bindings as `LongshoreError`.

    `daemon` names the daemon that the body talks to. `request` names what the body submits; empty for a query.
    """
    try:
        yield
    except LongshoreError:
        raise
    except Exception as error:
        # The bindings raise one class of their own for all failures, and others for invalid arguments.
        raise to_error(error, daemon, request) from error


def to_error(error: Exception, daemon: str, request: str) -> LongshoreError:
    """The `LongshoreError` for an exception of the bindings; parameters as in `map_errors`."""
    text = " ".join(str(error).split()) or type(error).__name__
    if any(word in text for word in _REFUSED):
        return ServiceError(
            f"{daemon} does not accept your identity: {text}",
            hint="'condor_ping -type schedd WRITE' shows how it identifies you. Daemons older than 24 want "
            "SEC_FS_ENFORCE_CHANNEL_BINDING = False at the client.",
        )
    if request and any(word in text for word in _COMMIT_FAILED):
        return SubmissionUncertainError(f"{daemon} could not commit {request}: {text}")
    if any(word in text for word in _ABSENT) or text.rstrip().endswith("errmsg="):
        # For a collector that rejects the user, the bindings only report no answer.
        return UnreachableError(
            f"{daemon} does not answer: {text}",
            hint="'condor_status -any' shows which daemons do, and 'condor_ping -type collector READ' whether it "
            "accepts your identity.",
        )
    if request and _PASSING.search(text):
        return SubmissionRefusedError(
            f"{daemon} does not take {request} for now: {text}",
            hint="That is no fault of the run. Nothing of it is submitted; try again when it has passed.",
        )
    if request:
        return SubmissionRefusedError(f"{daemon} does not take {request}: {text}")
    return ServiceError(f"{daemon} says: {text}")
