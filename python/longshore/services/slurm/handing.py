"""Hands batches over, each at most once: what is not answered is looked up before anything else is done with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from longshore.contract.context import RunPaths, Unreachable
from longshore.contract.executor import Accepted, Batch, Found, Refused, SubmitAnswer, Throttled, Unsure
from longshore.errors import ConfigError
from longshore.services.slurm import render
from longshore.services.slurm.books import Attempt, BatchBook, Books
from longshore.services.slurm.client import SlurmClient
from longshore.services.slurm.pace import Pace
from longshore.services.slurm.parse import ClusterFacts, Verdict, queue_rows, submitted_id, verdict
from longshore.services.slurm.script import Scripts
from longshore.services.slurm.watch import Watch
from longshore.world.newest import since_boot

LOG: Final = logging.getLogger("longshore.slurm")

_APPEAR_S: Final = 120.0
"""How long a batch whose submission was not answered may take to appear: twice Slurm's longest wait for a message."""
_BACK_OFF_S: Final = 15.0


class Handing:
    """Hands the batches of one run over.

    Parameters
    ----------
    run
        The run directory.
    client
        Talks to Slurm.
    scripts
        Writes what is handed over.
    books
        Keeps what was handed over.
    watch
        Watches it from there on.
    pace
        How often the queue is asked.
    facts
        What is known of the cluster.
    """

    def __init__(
        self,
        *,
        run: RunPaths,
        client: SlurmClient,
        scripts: Scripts,
        books: Books,
        watch: Watch,
        pace: Pace,
        facts: ClusterFacts | None,
    ) -> None:
        self._run = run
        self._client = client
        self._scripts = scripts
        self._books = books
        self._watch = watch
        self._pace = pace
        self._accounting = bool(facts and facts.accounting)

    def submit(self, batch: Batch) -> SubmitAnswer:
        """Hand a batch over as one array."""
        try:
            script = self._scripts.text(batch)
        except ConfigError as error:
            return Refused(error.message)
        book = BatchBook(
            tag=batch.tag,
            name=self._scripts.name(batch.tag),
            members=tuple((member.job, member.attempt) for member in batch.members),
            at=time.time(),
            memory_b=batch.request.memory_b,
        )
        try:
            self._books.write(book, render.table(batch.members, self._run))
        except OSError as error:
            return Throttled(f"the batch cannot be written down: {error.strerror}", _BACK_OFF_S)
        return self._sbatch(book, script)

    def _sbatch(self, book: BatchBook, script: str) -> SubmitAnswer:
        LOG.debug("sbatch of %s:\n%s", book.tag, script)
        answer = self._client.submit(script)
        LOG.debug("sbatch replied %s in %.2f s: %s%s", answer.status, answer.seconds, answer.out, answer.err)
        found = submitted_id(answer.out) if answer.ok else None
        if found:
            self._taken(book, found[0])
            return Accepted(str(found[0]))
        if answer.status is None or answer.ok:
            return Unsure(f"sbatch gave no id: {answer.why}")
        match verdict(answer.err or answer.out):
            case Verdict.UNSURE:
                return Unsure(answer.why)
            case Verdict.THROTTLED:
                self._books.forget(book.tag)
                return Throttled(f"Slurm takes no more for now: {answer.why}", _BACK_OFF_S)
            case _:
                self._books.forget(book.tag)
                return Refused(f"Slurm refuses it: {answer.why}")

    def _taken(self, book: BatchBook, number: int) -> None:
        known = msgspec.structs.replace(book, id=number)
        self._watch.follow(known, since_boot())
        self._pace.hurry()
        try:
            self._books.write(known)
        except OSError as error:
            # The job's name finds it again.
            LOG.warning("the id %s of batch '%s' cannot be written down: %s", number, book.tag, error.strerror)

    def find(self, tags: Iterable[str]) -> Found | Unreachable:
        """Look batches up: in what was written down, else by name in the queue and in accounting."""
        taken: dict[str, frozenset[Attempt]] = {}
        for tag in tags:
            book = self._books.read(tag)
            if book is None:
                continue
            if book.id is None:
                number = self._look_up(book)
                if isinstance(number, Unreachable):
                    return number
                if number is None:
                    self._books.forget(tag)
                    continue
                self._taken(book, number)
            taken[tag] = frozenset(book.members)
        return Found(taken)

    def _look_up(self, book: BatchBook) -> int | Unreachable | None:
        """Slurm's id of a batch whose submission was never answered."""
        told = self._client.queue(max_age_s=self._pace.floor_s, not_before=since_boot())
        if told is None or told.text is None:
            return Unreachable(why=told.why if told else "another engine is asking Slurm")
        for row in queue_rows(told.text):
            if row.name == book.name:
                return row.id.job
        if self._accounting:
            since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(book.at - 3600))
            rows = self._client.accounts_named(book.name, since=since)
            if isinstance(rows, Unreachable):
                return rows
            if rows:
                return min(rows, key=lambda task: task.job).job
        if abs(time.time() - book.at) < _APPEAR_S:
            return Unreachable(why=f"sbatch did not answer, and its job '{book.name}' may still appear")
        return None
