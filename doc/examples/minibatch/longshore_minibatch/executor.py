"""Submits attempts to minibatch, one job each, and reports their starts and ends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import jinja2

from longshore.contract.executor import (
    Accepted,
    AttemptId,
    Batch,
    EndRetention,
    Executor,
    FindResult,
    Limits,
    MemberEvent,
    PollResult,
    SubmitResult,
    Throttled,
)
from longshore.contract.service import CancelOutcome, Mark, RunPaths, Unreachable
from longshore.engine.job_wrapper import BatchFiles
from longshore.model.event import Ended, Lost, Started
from longshore.model.states import Cause
from longshore.rundir.batch_records import tags_of_workflow
from longshore_minibatch.client import MinibatchClient

TEMPLATE = PurePosixPath("wms", "batch.sh.j2")


@dataclass
class Active:
    """An attempt that has not ended."""

    files: BatchFiles
    started: bool = False
    cancelled: bool = False


class MinibatchExecutor(Executor, EndRetention):
    """Drives minibatch for the engine. The name of a job is the tag of its batch.

    Parameters
    ----------
    settings
        ``minibatch``: the site's map; ``limits``: the site's limits; ``inherit``: which variables jobs inherit.
    """

    queue_delay_s = 5.0
    """Longest time from a submission until the job appears in the queue, in seconds."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        poll_s = settings.get("minibatch", {}).get("pollInterval", 0.0)
        self.limits = Limits(**{"poll_floor_s": poll_s, **settings.get("limits", {}), "max_batch": 1})
        self._client = MinibatchClient(settings)
        self._active: dict[AttemptId, Active] = {}
        self._ended: dict[AttemptId, BatchFiles] = {}

    def open(self, run: RunPaths, life: int) -> None:
        """Follow the batches of earlier lives."""
        self._run = run
        self._template = jinja2.Template((run.root / TEMPLATE).read_text("utf-8"), keep_trailing_newline=True)
        for tag in tags_of_workflow(run, (path.stem for path in run.batches.glob("*.id"))):
            self._follow(BatchFiles(run, tag))

    def submit(self, batch: Batch) -> SubmitResult:
        """Write the files of a batch, and submit its script."""
        files = BatchFiles(self._run, batch.tag)
        try:
            files.write_table(batch.members)
            text = self._template.render(tag=batch.tag, nice=batch.settings.get("nice"), command=files.command())
            files.script.write_text(text, "utf-8")
        except OSError as error:
            return Throttled(f"the batch cannot be written: {error.strerror}", retry_after_s=5.0)
        answer = self._client.submit(batch.tag, batch.request.cpus, files.script)
        if isinstance(answer, Accepted):
            self._record(files, answer.id)
        return answer

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look batches up in the queue and among end records."""
        queue = self._client.queue()
        if isinstance(queue, Unreachable):
            return queue
        taken = {}
        for tag in tags:
            files = BatchFiles(self._run, tag)
            members = files.read_members()
            if tag in queue or any(files.read_ends(members)):
                self._record(files, "found")
                taken[tag] = frozenset(members)
            elif members and time.time() - files.table.stat().st_mtime < self.queue_delay_s:
                return Unreachable(why=f"the job '{tag}' may still appear in the queue")
        return FindResult(taken)

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Compare the queue and the end records with the attempts that were active."""
        # The queue is read before the end records: a job that has left the queue has written its record.
        queue = self._client.queue() if self._active else frozenset()
        if isinstance(queue, Unreachable):
            return queue
        events: list[MemberEvent] = []
        never_started = []
        for (job, attempt), active in list(self._active.items()):
            ended, begun = active.files.read_ends({(job, attempt)})
            record = ended.get((job, attempt))
            if not active.started and (record or begun):
                active.started = True
                host, at = (record.host, record.start) if record else (None, None)
                events.append(Started(j=job, a=attempt, host=host, at=at))
            if record:
                events.append(record.to_event())
            elif active.files.tag in queue:
                continue
            elif active.cancelled:
                events.append(Ended(j=job, a=attempt, cause=Cause.CANCELLED))
            elif active.started:
                events.append(Lost(j=job, a=attempt, why="it left the queue without an end record"))
            else:
                never_started.append((job, attempt))
            self._ended[job, attempt] = self._active.pop((job, attempt)).files
        return PollResult(events=events, mark="", never_started=never_started)

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        """Cancel the jobs of attempts."""
        found = [self._active[attempt] for attempt in attempts if attempt in self._active]
        if found and not self._client.cancel([active.files.tag for active in found], grace_s=grace_s):
            return CancelOutcome(ended=0, alive=(f"{len(found)} jobs, because mb-cancel failed",))
        for active in found:
            active.cancelled = True
        return CancelOutcome(ended=len(found))

    def discard_ends(self, attempts: Iterable[AttemptId]) -> None:
        """Remove the files of attempts whose ends the engine has recorded."""
        for attempt in attempts:
            if files := self._ended.pop(attempt, None):
                files.table.with_suffix(".id").unlink(missing_ok=True)
                files.remove_end(attempt)
                files.remove_directory()

    def close(self) -> None:
        """Forget all attempts; their jobs go on."""
        self._active.clear()

    def _record(self, files: BatchFiles, number: str) -> None:
        """Record that minibatch has a batch, also for the next life."""
        files.table.with_suffix(".id").write_text(number, "utf-8")
        self._follow(files)

    def _follow(self, files: BatchFiles) -> None:
        for attempt in files.read_members():
            if attempt not in self._ended:
                self._active.setdefault(attempt, Active(files))
