"""Turns what HTCondor's bindings raise, one class for whatever it is, into errors of ours that say who must act."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from longshore.errors import LongshoreError, ServiceError, SubmissionRefusedError, UnreachableError, UnsureError

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
"""What they say of a schedd that went away while it took something, or that refused at the very end."""


@contextmanager
def ours(what: str, *, refused: str = "") -> Iterator[None]:
    """Say in our words what the bindings raise.

    Parameters
    ----------
    what
        Whom the body talks to.
    refused
        What the body wants it to take; empty where it only asks.
    """
    try:
        yield
    except LongshoreError:
        raise
    except Exception as error:
        # The bindings raise a class of their own for whatever it is, and others for what they are given.
        raise translated(error, what, refused) from error


def translated(error: Exception, what: str, refused: str) -> LongshoreError:
    """An error of ours for what the bindings raised.

    Parameters
    ----------
    error
        What they raised.
    what
        Whom they talked to.
    refused
        What was to be taken; empty where something was only asked.
    """
    said = " ".join(str(error).split()) or type(error).__name__
    if any(word in said for word in _REFUSED):
        return ServiceError(
            f"{what} does not accept who you are: {said}",
            hint="'condor_ping -type schedd WRITE' shows what it makes of you. Daemons older than 24 want "
            "SEC_FS_ENFORCE_CHANNEL_BINDING = False at the client.",
        )
    if refused and any(word in said for word in _AMID):
        return UnsureError(f"{what} could not commit {refused}: {said}")
    if any(word in said for word in _ABSENT) or said.rstrip().endswith("errmsg="):
        # Of a collector that accepts nobody, the bindings say no more than that it did not answer.
        return UnreachableError(
            f"{what} does not answer: {said}",
            hint="'condor_status -any' shows what of the pool does, and 'condor_ping -type collector READ' whether it "
            "accepts who you are.",
        )
    if refused:
        return SubmissionRefusedError(f"{what} does not take {refused}: {said}")
    return ServiceError(f"{what} says: {said}")
