"""Reasons why submitted jobs wait, as an executor tells them and as readers of a run show them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class WaitReasons(msgspec.Struct, frozen=True, kw_only=True):
    """Reasons why submitted jobs wait.

    Attributes
    ----------
    reasons
        Indices of jobs per reason, in the workload manager's own words.
    held
        Those of the reasons that last until a person acts.
    hint
        How a person does that.
    hopeless
        Those of the reasons for which no job ever starts as it is, each with the change that mends it, in words.
    requeued
        Indices of those jobs that wait again, after they had begun.
    """

    reasons: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    held: frozenset[str] = frozenset()
    hint: str = ""
    hopeless: Mapping[str, str] = msgspec.field(default_factory=dict)
    requeued: frozenset[int] = frozenset()
