"""Which jobs run in pilots, and which as jobs of their own: the rule, and the executor that follows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.contract.executor import (
    AttemptId,
    Batch,
    BatchSizing,
    EndRetention,
    Executor,
    FindResult,
    JobPacking,
    LateFactSource,
    Limits,
    NewsWait,
    PollResult,
    Reprioritisable,
    ResourceProbe,
    SubmitResult,
    SubmitWindow,
    Urgency,
    WaitReasons,
)
from longshore.contract.service import CancelOutcome, Mark, PingReport, RunPaths, Unreachable
from longshore.engine.run.loop import wait_for_news
from longshore.model.event import AttemptFacts
from longshore.model.tasks import Scalar
from longshore.model.workflow import MIB, Request
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.pilots.allocations import PilotSettings, margin_s

PACKING_KEY: Final = "packing"
"""Attribute of jobs that says whether they run in pilots: ``pilot``, or missing."""
_TERMS_KEYS: Final = ("queue", "accountingGroup", "accountingUser")
"""Attributes that an allocation has one value of."""
_OWN_WORDS: Final = ("container", "longshore")
"""Keys of jobs' settings that are part of their commands."""


class PackingRule(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether jobs run in pilots.

    `settings` is the service's own map of the site, and `attributes` are those of the allocations.
    """

    pilot: PilotSettings
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    attributes: Mapping[str, Scalar] = msgspec.field(default_factory=dict)

    def packs(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any], request: Request) -> bool:
        """Whether jobs with these values run in pilots."""
        return is_wanted(attributes) and not self.obstacle(attributes, settings, request)

    def obstacle(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any], request: Request) -> str:
        """Return why jobs that want it cannot run in pilots; empty if they can."""
        return _too_much(self.pilot, request) or self._other_terms(attributes, settings)

    def _other_terms(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any]) -> str:
        for key in _TERMS_KEYS:
            if key in attributes and attributes[key] != self.attributes.get(key):
                return f"'{key}' is not that of the pilots"
        if settings.get("launcher"):
            return "a launcher starts their commands"
        for key, value in settings.items():
            if key not in _OWN_WORDS and value not in (self.settings.get(key), _empty_of(self.settings.get(key))):
                return f"'{key}' is not that of the pilots"
        return ""


def is_wanted(attributes: Mapping[str, Scalar]) -> bool:
    """Whether jobs are to run in pilots where they can."""
    return attributes.get(PACKING_KEY) == "pilot"


def _too_much(pilot: PilotSettings, request: Request) -> str:
    """Return what of a request no pilot has; empty if it fits."""
    if request.cpus > pilot.cpus:
        return f"{request.cpus} processors are more than a pilot's {pilot.cpus}"
    if (request.memory_b or 0) > pilot.memory_b:
        return f"{(request.memory_b or 0) / MIB:.0f} MiB of memory are more than a pilot's {pilot.memory_b / MIB:.0f}"
    longest_s = pilot.walltime_s - margin_s(pilot.walltime_s)
    if (request.walltime_s or 0.0) > longest_s:
        return f"{request.walltime_s:.0f} s of run time are more than the {longest_s:.0f} s that a pilot has for jobs"
    if request.disk_b:
        return "pilots do not count disk"
    return f"pilots have no '{min(request.resources)}'" if any(request.resources.values()) else ""


def _empty_of(value: object) -> object:
    """Return what a missing value may also be written as."""
    return [] if value is None else value


class CombinedExecutor(
    Executor,
    NewsWait,
    ResourceProbe,
    SubmitWindow,
    BatchSizing,
    JobPacking,
    Reprioritisable,
    EndRetention,
    LateFactSource,
):
    """Two executors as one: `pilots` gets the batches that `rule` packs, and `jobs` all others."""

    def __init__(self, jobs: BatchExecutor, pilots: Executor, rule: PackingRule) -> None:
        self._jobs = jobs
        self._pilots = pilots
        self.rule = rule
        self._job_waits: WaitReasons | None = None
        self._pilot_waits: WaitReasons | None = None

    @property
    def limits(self) -> Limits:  # type: ignore[override]
        """Limits on jobs of their own; `packed_limits` are those of the others."""
        return self._jobs.limits

    @property
    def packed_limits(self) -> Limits:  # type: ignore[override]
        """Limits on the jobs in pilots."""
        return self._pilots.limits

    def open(self, run: RunPaths, life: int) -> None:
        """Open both."""
        self._jobs.open(run, life)
        self._pilots.open(run, life)

    def close(self) -> None:
        """Close both, also if the first fails."""
        try:
            self._pilots.close()
        finally:
            self._jobs.close()

    # ------------------------------------------------------------------------------------------------------ submit

    def packs(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any], request: Request) -> bool:
        """Return whether jobs with these values run in pilots."""
        return self.rule.packs(attributes, settings, request)

    def submit(self, batch: Batch) -> SubmitResult:
        """Submit a batch where it belongs."""
        is_packed = self.packs(batch.attributes, batch.settings, batch.request)
        return (self._pilots if is_packed else self._jobs).submit(batch)

    def free_submissions(self) -> int | None:
        """Return how many batches of jobs of their own may be submitted now."""
        return self._jobs.free_submissions()

    def max_batch_for(self, settings: Mapping[str, Any]) -> int:
        """Return how many members a batch of jobs of their own may have."""
        return self._jobs.max_batch_for(settings)

    def reprioritise(self, urgencies: Mapping[str, Urgency]) -> None:
        """Change the order of batches in the queue; pilots run theirs in the order of their arrival."""
        self._jobs.reprioritise(urgencies)

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look up batches in both: the packing rule of an earlier life may have been another."""
        wanted = sorted(tags)
        packed = self._pilots.find(wanted)
        if isinstance(packed, Unreachable):
            return packed
        others = self._jobs.find(wanted)
        if isinstance(others, Unreachable):
            return others
        taken = dict(others.taken)
        for tag, members in packed.taken.items():
            taken[tag] = taken.get(tag, frozenset()) | members
        return FindResult(taken, {**others.late, **packed.late}, others.lost | packed.lost)

    # -------------------------------------------------------------------------------------------------------- poll

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return the news of both; that of one if the other does not answer."""
        own_mark, _, packed_mark = since.partition(" ")
        own, packed = self._jobs.poll(own_mark), self._pilots.poll(packed_mark)
        if isinstance(own, Unreachable) and isinstance(packed, Unreachable):
            return own
        own = _answer_of(own, own_mark)
        packed = _answer_of(packed, packed_mark)
        return PollResult(
            events=[*own.events, *packed.events],
            mark=f"{own.mark} {packed.mark}",
            never_started=[*own.never_started, *packed.never_started],
            recheck=own.recheck | packed.recheck,
            busy=own.busy or packed.busy,
            note="; ".join(filter(None, (own.note, packed.note))),
            waiting=self._merge_waits(own.waiting, packed.waiting),
        )

    def _merge_waits(self, own: WaitReasons | None, packed: WaitReasons | None) -> WaitReasons | None:
        """Return why jobs of both wait; ``None`` if nothing has changed."""
        if own is None and packed is None:
            return None
        self._job_waits, self._pilot_waits = own or self._job_waits, packed or self._pilot_waits
        return merge_waits(self._job_waits or WaitReasons(), self._pilot_waits or WaitReasons())

    def wait(self, timeout_s: float) -> None:
        """Wait for news of jobs in pilots, which are short; `poll` reads the records of the others."""
        wait_for_news(self._pilots, timeout_s)

    def probe(self) -> PingReport:
        """Return facts of the cluster."""
        return self._jobs.probe()

    def take_facts(self) -> Sequence[AttemptFacts]:
        """Return what accounting told of jobs of their own; pilots measure theirs."""
        return self._jobs.take_facts()

    def awaited_facts(self) -> Collection[AttemptId]:
        """Return the attempts for which accounting may still have facts."""
        return self._jobs.awaited_facts()

    # --------------------------------------------------------------------------------------------------------- end

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        """Cancel attempts in both; each ignores those of the other."""
        wanted = sorted(attempts)
        own = self._jobs.cancel(wanted, grace_s=grace_s)
        packed = self._pilots.cancel(wanted, grace_s=grace_s)
        return CancelOutcome(ended=own.ended + packed.ended, alive=(*own.alive, *packed.alive))

    def discard_ends(self, attempts: Iterable[AttemptId]) -> None:
        """Remove the files of ends that the journal has."""
        wanted = list(attempts)
        self._jobs.discard_ends(wanted)
        if isinstance(self._pilots, EndRetention):
            self._pilots.discard_ends(wanted)


def merge_waits(first: WaitReasons, second: WaitReasons) -> WaitReasons:
    """Return the reasons of both, with the jobs of each."""
    reasons = {
        reason: tuple(sorted({*first.reasons.get(reason, ()), *second.reasons.get(reason, ())}))
        for reason in sorted({*first.reasons, *second.reasons})
    }
    return WaitReasons(
        reasons=reasons,
        held=first.held | second.held,
        hint=first.hint or second.hint,
        hopeless={**first.hopeless, **second.hopeless},
        requeued=first.requeued | second.requeued,
    )


def _answer_of(answer: PollResult | Unreachable, mark: Mark) -> PollResult:
    """Return an answer; for none, one without news."""
    if isinstance(answer, Unreachable):
        return PollResult(events=(), mark=mark, note=f"the workload manager does not answer: {answer.why}")
    return answer
