"""Limits of a static check of a run (lint), and what depends on files or the machine (decision 0087)."""

from __future__ import annotations

import msgspec

from longshore.config.schema import Finding
from longshore.contract.service import Problem
from longshore.errors import LongshoreError


class LeftOutError(LongshoreError):
    """The rest of a payload cannot be checked statically."""


class StaticCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check of a run that asks no workload manager, calls no function of a user, and takes bounded time.

    `max_tasks` and `max_bytes` bound what is read of a large payload. `is_site_valid` is false when the description of
    the site has errors. `left_out` collects phrases for what was not checked. `seen` collects the problems of jobs'
    files and programs on this machine, `notes` what is legal but may be a mistake. `findings` are those of lint that
    need the payload.
    """

    max_tasks: int = 10_000
    max_bytes: int = 16 * 1024 * 1024
    is_site_valid: bool = True
    left_out: list[str] = msgspec.field(default_factory=list)
    seen: list[Problem] = msgspec.field(default_factory=list)
    notes: list[Problem] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)
