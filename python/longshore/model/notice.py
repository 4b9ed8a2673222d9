"""Rules, messages and deliveries of notices; apart because only runs that notify somebody need them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec

from longshore.model.states import JobState


class NoticeEvent(StrEnum):
    """What a notice is about."""

    START = "start"
    """The run has begun, or was restarted."""
    FIRST_FAILURE = "firstFailure"
    """A job failed, and is not retried; once between a start and an end."""
    HOLD = "hold"
    """Jobs are held, or the run is paused; once between a start and an end."""
    STOPPED = "stopped"
    """Nothing drives the run any more, though it is not over: what drove it died."""
    END = "end"
    """The run is over."""


class SecretReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a secret is read when it is needed: the variable `env`, or the first line of `file`."""

    env: str = ""
    file: str = ""


class NoticeRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of ``notify``: on which events a command runs, or a webhook is called."""

    name: str
    events: tuple[NoticeEvent, ...]
    command: str = ""
    """A line for the POSIX shell; empty with a webhook."""
    webhook: SecretReference | None = None
    format: Literal["json", "slack"] = "json"
    """The body of a webhook's request."""
    timeout_s: float = 30.0


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Message about one event of a run."""

    event: NoticeEvent
    run: str
    """The run's id."""
    name: str
    directory: str
    service: str
    state: JobState
    counts: Mapping[JobState, int]
    subject: str
    """One line."""
    text: str
    """The same in full, in lines."""


class NoticeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of ``notices.jsonl``: an event was seen, or a rule was carried out for it.

    Attributes
    ----------
    at
        Seconds since the epoch (UTC).
    life
        Number of what drove the run then; it grows with each restart and resume.
    rules
        Of an event, the rules that are carried out for it.
    rule
        The rule; empty for the event itself.
    is_sent
        Whether the command succeeded, or the webhook accepted the notice.
    why
        Why it was not sent.
    """

    at: float
    event: NoticeEvent
    life: int = 0
    rules: tuple[str, ...] = ()
    rule: str = ""
    is_sent: bool = False
    why: str = ""
