"""Drives Slurm for the engine: arrays go in, one query an interval and the jobs' own records come back as events.

It is one file because what is told of an attempt, and when, must be decided in one place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from longshore.contract.context import Context, PingReport, RenderedFile, RunPaths, Unreachable
from longshore.contract.executor import (
    Accepted,
    Batch,
    CancelOutcome,
    Executor,
    Found,
    Limits,
    Mark,
    MemberEvent,
    Polled,
    Refused,
    SubmitAnswer,
    Throttled,
    Unsure,
)
from longshore.errors import ConfigError
from longshore.model.event import Ended, Lost, Started
from longshore.services.slurm import render
from longshore.services.slurm.books import Attempt, BatchBook, Books, EndRecord
from longshore.services.slurm.client import SlurmClient
from longshore.services.slurm.outcome import ended, said_out_of_memory
from longshore.services.slurm.parse import (
    AccountRow,
    ClusterFacts,
    QueueRow,
    TaskId,
    Verdict,
    queue_rows,
    shown_row,
    submitted_id,
    verdict,
)
from longshore.services.slurm.script import TEMPLATE, batch_name, batch_script, is_heterogeneous
from longshore.services.slurm.states import HELD_REASONS, Phase, phase_of
from longshore.world.newest import since_boot

LOG: Final = logging.getLogger("longshore.slurm")

_MAX_BATCH: Final = 1000
_MAX_WAITING: Final = 1000
_FLOOR_S: Final = 2.0
_CEILING_S: Final = 60.0
_LOOK_S: Final = 0.5
"""Least time between two looks at the records that jobs leave."""
_SETTLE_S: Final = 3.0
"""A query begun so soon after a batch was handed over may not know it yet."""
_GRACE_S: Final = 60.0
"""How long what is gone from the queue, and of which nothing else is known, is looked for."""
_APPEAR_S: Final = 120.0
"""How long a batch whose submission was not answered may take to appear: twice Slurm's longest wait for a message."""
_BACK_OFF_S: Final = 15.0
_OUTPUT_B: Final = 1 << 18
"""How much of what Slurm wrote about a batch is searched, from its end."""


class _Member:
    """What is known of one attempt that is not over."""

    __slots__ = ("attempt", "book", "gone", "gone_at", "handed_at", "record", "row", "started", "task", "wanted_at")

    def __init__(self, attempt: Attempt, book: BatchBook, position: int, handed_at: float) -> None:
        self.attempt = attempt
        self.book = book
        self.task: TaskId | None = book.task(position)
        self.handed_at = handed_at
        self.started = False
        self.record: EndRecord | None = None
        self.row: QueueRow | None = None
        """The newest row of the queue."""
        self.gone = 0
        """How many answers in a row did not know it."""
        self.gone_at = 0.0
        self.wanted_at = 0.0
        """When its end was first known of, while the scheduler's word for it is waited for."""


class SlurmExecutor(Executor):
    """Hands batches to Slurm.

    Parameters
    ----------
    settings
        ``slurm``: the service's own map; ``limits``: those of the site, by the fields of
        `longshore.contract.executor.Limits`; ``setup``: lines before Slurm's programs; ``directives``: raw options of
        the site; ``inherit``: which variables jobs inherit; ``account``, ``qos``, ``partitions``: where nobody says.
    client
        Talks to Slurm; made from the settings where it is not given.
    """

    def __init__(self, settings: Mapping[str, Any], *, client: SlurmClient | None = None) -> None:
        self._settings = settings
        self._slurm: Mapping[str, Any] = settings.get("slurm") or {}
        self._client = client or SlurmClient(
            self._slurm, setup=settings.get("setup") or (), inherit=settings.get("inherit") or "all"
        )
        limits = dict(settings.get("limits") or {})
        limits.setdefault("max_batch", _MAX_BATCH)
        limits.setdefault("max_waiting", int(self._slurm.get("n_max_queued_jobs") or _MAX_WAITING))
        self.limits = Limits(**limits)
        self._floor_s = max(self.limits.poll_floor_s, float(self._slurm.get("pollInterval") or _FLOOR_S))
        self._interval_s = self._floor_s
        self._run: RunPaths | None = None
        self._books: Books | None = None
        self._template = ""
        self._facts: ClusterFacts | None = None
        self._members: dict[Attempt, _Member] = {}
        self._over: dict[Attempt, BatchBook] = {}
        """What has ended, and the engine has not settled yet."""
        self._looked_at = self._asked_at = -1e9
        self._wanted_since = 0.0
        """A query begun before this moment does not answer what we want to know now."""
        self._polls = 0
        self._note = ""

    # ------------------------------------------------------------------------------------------------------- begin

    def open(self, run: RunPaths, life: int) -> None:
        """Read what earlier lives handed over."""
        self._run = run
        self._books = Books(run)
        self._template = (run.root / TEMPLATE).read_text("utf-8")
        for book in self._books.all():
            # One without an id waits for somebody to look it up.
            if book.id is not None:
                self._follow(book, 0.0)
        if self._client.scrubbed:
            LOG.info("kept from Slurm's programs: %s", ", ".join(self._client.scrubbed))
        facts = self._client.facts()
        if isinstance(facts, ClusterFacts):
            self._facts = facts
            if facts.max_array and facts.max_array - 1 < self.limits.max_batch:
                # The largest index is one less than the size (slurm.conf(5): MaxArraySize).
                self.limits = Limits(
                    max_batch=max(1, facts.max_array - 1),
                    max_waiting=self.limits.max_waiting,
                    max_active=self.limits.max_active,
                    submit_per_s=self.limits.submit_per_s,
                    poll_floor_s=self.limits.poll_floor_s,
                )

    # ------------------------------------------------------------------------------------------------------ submit

    def script(self, batch: Batch, ctx: Context | None = None) -> RenderedFile | None:
        """Return the script of a batch."""
        text = self._script(batch)

        def chunks() -> Iterator[str]:
            yield text

        return RenderedFile(path=PurePosixPath("batches", f"{batch.tag}.sh"), chunks=chunks)

    def _script(self, batch: Batch) -> str:
        run, _ = self._opened()
        licences = self._facts.licences if self._facts else ()
        return batch_script(batch, self._settings, run, self._template, licences=licences)

    def most_in_batch(self, own: Mapping[str, Any]) -> int:
        """Return 1 for heterogeneous jobs, which Slurm does not take as arrays."""
        try:
            return 1 if is_heterogeneous(self._settings, own) else self.limits.max_batch
        except ConfigError:
            # It is told when the batch is handed over.
            return self.limits.max_batch

    def _name(self, tag: str) -> str:
        return batch_name(self._settings, tag)

    def submit(self, batch: Batch) -> SubmitAnswer:
        """Hand a batch over as one array."""
        run, books = self._opened()
        try:
            script = self._script(batch)
        except ConfigError as error:
            return Refused(error.message)
        members = tuple((member.job, member.attempt) for member in batch.members)
        book = BatchBook(
            tag=batch.tag,
            name=self._name(batch.tag),
            members=members,
            at=time.time(),
            memory_b=batch.request.memory_b,
        )
        try:
            books.write(book, render.table(batch.members, run))
        except OSError as error:
            return Throttled(f"the batch cannot be written down: {error.strerror}", _BACK_OFF_S)
        LOG.debug("sbatch of %s:\n%s", batch.tag, script)
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
                books.forget(batch.tag)
                return Throttled(f"Slurm takes no more for now: {answer.why}", _BACK_OFF_S)
            case _:
                books.forget(batch.tag)
                return Refused(f"Slurm refuses it: {answer.why}")

    def _taken(self, book: BatchBook, number: int) -> None:
        _, books = self._opened()
        known = msgspec.structs.replace(book, id=number)
        self._follow(known, since_boot())
        self._interval_s = self._floor_s
        try:
            books.write(known)
        except OSError as error:
            # The job's name finds it again.
            LOG.warning("the id %s of batch '%s' cannot be written down: %s", number, book.tag, error.strerror)

    def _follow(self, book: BatchBook, handed_at: float) -> None:
        for position, attempt in enumerate(book.members):
            if attempt not in self._members:
                self._members[attempt] = _Member(attempt, book, position, handed_at)

    def find(self, tags: Iterable[str]) -> Found | Unreachable:
        """Look batches up: in what was written down, else by name in the queue and in accounting."""
        _, books = self._opened()
        taken: dict[str, frozenset[Attempt]] = {}
        for tag in tags:
            book = books.read(tag)
            if book is None:
                continue
            if book.id is None:
                number = self._look_up(book)
                if isinstance(number, Unreachable):
                    return number
                if number is None:
                    books.forget(tag)
                    continue
                self._taken(book, number)
            taken[tag] = frozenset(book.members)
        return Found(taken)

    def _look_up(self, book: BatchBook) -> int | Unreachable | None:
        """Slurm's id of a batch whose submission was never answered."""
        asked = since_boot()
        told = self._client.queue(max_age_s=self._floor_s, not_before=asked)
        if told is None or told.text is None:
            return Unreachable(why=told.why if told else "another engine is asking Slurm")
        for row in queue_rows(told.text):
            if row.name == book.name:
                return row.id.job
        if self._facts and self._facts.accounting:
            since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(book.at - 3600))
            rows = self._client.accounts_named(book.name, since=since)
            if isinstance(rows, Unreachable):
                return rows
            if rows:
                return min(rows, key=lambda task: task.job).job
        if abs(time.time() - book.at) < _APPEAR_S:
            return Unreachable(why=f"sbatch did not answer, and its job '{book.name}' may still appear")
        return None

    # -------------------------------------------------------------------------------------------------------- poll

    def poll(self, since: Mark) -> Polled | Unreachable:
        """Return what is new: from the jobs' own records at each look, from Slurm once an interval."""
        self._polls += 1
        events: list[MemberEvent] = []
        now = since_boot()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            events += self._from_records()
        why = ""
        if self._members and now - self._asked_at >= self._interval_s:
            why = self._ask(events)
            # What is over in the queue has left its record by now, and that knows more.
            events += self._from_records()
        events += self._conclude()
        if events:
            self._interval_s = self._floor_s
        if why and not events:
            return Unreachable(why=why)
        return Polled(events=events, mark=str(self._polls))

    def _from_records(self) -> Iterator[MemberEvent]:
        """What jobs wrote down."""
        _, books = self._opened()
        by_tag: dict[str, dict[Attempt, _Member]] = {}
        for attempt, member in self._members.items():
            if member.record is None:
                by_tag.setdefault(member.book.tag, {})[attempt] = member
        for tag, wanted in by_tag.items():
            records, begun = books.records(tag, wanted)
            for attempt in sorted(begun | records.keys()):
                member = wanted[attempt]
                record = records.get(attempt)
                if not member.started and (record is None or not record.refused):
                    member.started = True
                    yield Started(
                        j=attempt[0],
                        a=attempt[1],
                        host=record.host if record else None,
                        at=record.start if record else None,
                    )
                member.record = record

    def _ask(self, events: list[MemberEvent]) -> str:
        """Ask the queue; why there was no answer, if there was none."""
        told = self._client.queue(max_age_s=self._interval_s, not_before=self._wanted_since)
        if told is None:
            return ""
        if told.asked_at <= self._asked_at and told.text is not None:
            return ""
        if told.text is None:
            # Asked again, at leisure: nothing follows from silence.
            self._asked_at = since_boot()
            LOG.warning("squeue does not answer: %s", told.why)
            return told.why
        self._asked_at = told.asked_at
        self._interval_s = min(self._interval_s * 1.5, max(_CEILING_S, self._floor_s))
        by_task = {row.id: row for row in queue_rows(told.text)}
        held = 0
        for attempt, member in self._members.items():
            row = by_task.get(member.task) if member.task else None
            if row is None:
                if told.asked_at > member.handed_at + _SETTLE_S:
                    member.gone += 1
                    member.gone_at = member.gone_at or told.asked_at
                continue
            member.gone, member.gone_at, member.row = 0, 0.0, row
            held += row.reason in HELD_REASONS
            phase = phase_of(row.state)
            if phase is Phase.UNKNOWN:
                LOG.warning("Slurm calls the state of job %s '%s', a word that is not known here", row.id, row.state)
            if phase is Phase.RUNNING and not member.started:
                member.started = True
                events.append(Started(j=attempt[0], a=attempt[1], host=row.node or None, at=row.started_at))
        self._note = f"{held} jobs are held in Slurm: scontrol release lets them go" if held else ""
        return ""

    def _conclude(self) -> list[MemberEvent]:
        """The ends that are certain by now."""
        over: list[_Member] = []
        ask: list[_Member] = []
        now = since_boot()
        for member in self._members.values():
            said_over = member.row is not None and phase_of(member.row.state) is Phase.OVER
            if member.record is not None and member.record.status == 0 and not member.record.refused:
                over.append(member)
            elif member.record is not None or said_over or member.gone >= 2:
                if not member.wanted_at:
                    # How it ended is asked of Slurm, and of nothing that Slurm said before.
                    member.wanted_at = now
                    self._wanted_since = max(self._wanted_since, now)
                    self._interval_s = self._floor_s
                if said_over or member.gone >= 2 or now - member.wanted_at > _GRACE_S:
                    ask.append(member)
        ends: list[Ended | Lost] = [ended(member.attempt, record=member.record) for member in over]
        ends += self._judge(ask, now)
        return list(self._told(ends))

    def _told(self, ends: Iterable[Ended | Lost]) -> Iterator[MemberEvent]:
        """Ends, each after its start."""
        for end in ends:
            member = self._members.pop((end.j, end.a))
            self._over[member.attempt] = member.book
            if not member.started and isinstance(end, Ended) and (end.exit is not None or end.signal is not None):
                # It was over before anybody saw it run.
                yield Started(j=end.j, a=end.a, host=end.host, at=end.start)
            yield end

    def _judge(self, members: list[_Member], now: float) -> Iterator[Ended | Lost]:
        """How members ended that did not end well, or left no record."""
        if not members:
            return
        accounts = self._accounts(members)
        for member in members:
            account = accounts.get(member.task) if member.task and not isinstance(accounts, Unreachable) else None
            if account is not None and phase_of(account.state) is not Phase.OVER:
                account = None
            state = member.row.state if member.row and phase_of(member.row.state) is Phase.OVER else ""
            if member.record is None and account is None:
                shown = self._shown(member)
                if isinstance(shown, Unreachable):
                    continue
                if shown is None:
                    # Accounting may lag behind; what nobody knows anything of is waited for, and then lost.
                    if now - (member.wanted_at or now) > _GRACE_S and not isinstance(accounts, Unreachable):
                        yield Lost(
                            j=member.attempt[0],
                            a=member.attempt[1],
                            why=f"job {member.task} is gone from Slurm, and left no record of its end",
                        )
                    continue
                account, state = shown, shown.state
            elif account is None and self._facts and self._facts.accounting and now - member.wanted_at < _GRACE_S / 6:
                # Accounting is a moment behind the queue.
                continue
            yield self._end(member, state, account)

    def _end(self, member: _Member, state: str, account: AccountRow | None) -> Ended:
        _, books = self._opened()
        words = _tail(books.output(member.book.tag))
        return ended(
            member.attempt,
            record=member.record,
            state=state,
            account=account,
            memory_b=member.book.memory_b,
            out_of_memory=bool(words)
            and said_out_of_memory(words, (account.raw if account else "") or (member.row.raw if member.row else "")),
        )

    def _accounts(self, members: list[_Member]) -> Mapping[TaskId, AccountRow] | Unreachable:
        if not (self._facts and self._facts.accounting):
            return {}
        return self._client.accounts(member.task.job for member in members if member.task)

    def _shown(self, member: _Member) -> AccountRow | Unreachable | None:
        """What the controller still knows of a member that left no record."""
        if member.task is None:
            return None
        fields = self._client.shown(member.task)
        if fields is None or isinstance(fields, Unreachable):
            return fields
        state = fields.get("JobState", "")
        if phase_of(state) is not Phase.OVER:
            return None
        return shown_row(member.task, fields)

    # --------------------------------------------------------------------------------------------------------- end

    def cancel(self, attempts: Iterable[Attempt], *, grace_s: float) -> CancelOutcome:
        """Have Slurm end attempts: it sends TERM, and KILL after its own KillWait."""
        members = [self._members[attempt] for attempt in attempts if attempt in self._members]
        tasks: list[TaskId] = []
        for book in {member.book.tag: member.book for member in members}.values():
            mine = [member for member in members if member.book.tag == book.tag]
            all_of_it = sum(member.book.tag == book.tag for member in self._members.values())
            if book.id is not None and len(mine) == all_of_it:
                tasks.append(TaskId(book.id))
            else:
                tasks += [member.task for member in mine if member.task]
        failed = self._client.cancel(tasks) if tasks else None
        self._wanted_since = since_boot()
        self._interval_s = self._floor_s
        if failed is not None:
            return CancelOutcome(ended=0, alive=(f"scancel: {failed.why}",))
        return CancelOutcome(ended=len(members))

    def probe(self) -> PingReport:
        """Return what the controller says of its cluster."""
        facts = self._client.facts()
        if isinstance(facts, Unreachable):
            return PingReport(service="slurm", ok=False, message=facts.why)
        details = {"version": facts.version, "cluster": facts.name, "accounting": "yes" if facts.accounting else "no"}
        return PingReport(service="slurm", ok=True, message="the controller answers", details=details)

    def wait(self, timeout_s: float) -> None:
        """Sleep: nothing wakes us."""
        time.sleep(timeout_s)

    def close(self) -> None:
        """Nothing is held."""

    def settled(self, attempts: Iterable[Attempt]) -> None:
        """Remove what was kept for the sake of ends that the journal knows."""
        _, books = self._opened()
        tags = set()
        for attempt in attempts:
            book = self._over.pop(attempt, None)
            if book is not None:
                books.remove_record(book.tag, attempt)
                tags.add(book.tag)
        for tag in (
            tags - {member.book.tag for member in self._members.values()} - {book.tag for book in self._over.values()}
        ):
            books.forget(tag)

    def _opened(self) -> tuple[RunPaths, Books]:
        if self._run is None or self._books is None:
            raise RuntimeError("open() comes before anything else")
        return self._run, self._books


def _tail(path: Path) -> str:
    """The end of what Slurm wrote about a batch."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _OUTPUT_B))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
