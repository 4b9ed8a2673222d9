"""Allocations of pilots: their size and shell, their submission as batches, and their way through the queue."""

from __future__ import annotations

import logging
import shlex
import signal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

import msgspec

from longshore.contract.executor import (
    Accepted,
    Batch,
    BatchMember,
    Executor,
    MemberEvent,
    Rejected,
    SubmitResult,
    Throttled,
    WaitReasons,
    discard_ends,
    free_submissions,
    max_batch_for,
)
from longshore.contract.service import Mark, RunPaths, Unreachable
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.event import Ended, Lost, Started
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.rundir.batch_records import tag_prefix
from longshore.rundir.run_directory import read_card
from longshore.rundir.submissions import submission_paths
from longshore.services.batch.dialect import HostLauncher, NodeLauncher
from longshore.services.batch.pilots.program import STARTER, program_files
from longshore.services.batch.records import BATCH_TEMPLATE, BatchRecords
from longshore.system.atomic import create_atomically, write_atomically
from longshore.system.folder import make_folders
from longshore.system.host import Clock, SystemClock
from longshore.system.reading import read_file
from longshore.system.room import describe_failed_write

_MIB: Final = 2**20


class PilotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a site or a label asks of its pilots.

    Attributes
    ----------
    cpus, memory_b
        Processors and bytes of memory of each node of an allocation, which its jobs share.
    walltime_s
        Seconds that an allocation may run.
    count
        Most allocations that are requested at once.
    nodes
        Nodes of an allocation; a pilot runs on each.
    idle_s
        Seconds without work after which a pilot ends.
    short_job_s
        With ``packing: auto``, jobs that are expected to run shorter go to pilots.
    lease_s
        Seconds without an answer of the engine after which a pilot starts nothing.
    signals, grace_s
        Signals to a job beyond its limits, and seconds before the next one and before the kill.
    hidden_variables
        Variables that are empty in a job that does not set them.
    margin_s
        Seconds beyond the lease before a silent pilot's waiting jobs are moved.
    settle_s
        Seconds after the end of an allocation before its records count as complete, for a slow file system.
    """

    cpus: int = 4
    memory_b: int = 4 * 2048 * _MIB
    walltime_s: float = 3600.0
    count: int = 4
    nodes: int = 1
    idle_s: float = 60.0
    short_job_s: float = 60.0
    lease_s: float = 120.0
    signals: tuple[int, ...] = (signal.SIGTERM,)
    grace_s: float = 10.0
    hidden_variables: tuple[str, ...] = ()
    margin_s: float = 60.0
    settle_s: float = 15.0


# The shell chooses a Python, and starts the pilot program on each node.


PROGRAM: Final = PurePosixPath("program", "pilot.py")
"""Place of the pilot program in the run directory of the allocations."""
_INTERPRETER: Final = '"$PYTHON" -I -S -B'
MARGIN_SHARE: Final = 0.05
"""Share of an allocation's run time that is left at its end, so that its jobs are over before it is."""
_LEAST_MARGIN_S: Final = 10.0
_MOST_MARGIN_S: Final = 60.0


class PilotLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """What starts the pilots of a run.

    `python` is the interpreter that is tried first. `cpus` and `memory_b` are those of the jobs on each node.
    """

    python: str
    cpus: int
    memory_b: int
    walltime_s: float | None
    lease_s: float
    idle_s: float
    nodes: int = 1
    launcher: NodeLauncher | None = None

    def script(self, home: RunPaths, number: int) -> str:
        """Return the shell that an allocation runs."""
        until = "-" if self.walltime_s is None else str(int(self.walltime_s - margin_s(self.walltime_s)))
        amounts = (str(self.cpus), str(self.memory_b), until, str(int(self.lease_s)), str(int(self.idle_s)))
        begin = f'PYTHON={shlex.quote(self.python)}; [ -x "$PYTHON" ] || PYTHON=python3'
        command = f"exec {_INTERPRETER} {shlex.quote(str(home.root / PROGRAM))}"
        if self.launcher is None:
            words = shlex.join((str(mail_path(home, number, 0)), "0", *amounts))
            return f"{begin}\n{command} {words}"
        stem = shlex.quote(str(mail_path(home, number, 0)).removesuffix("0"))
        # A host's number is the last word of the command, and so the name of its shell.
        index = "$0" if isinstance(self.launcher, HostLauncher) else self.launcher.index
        inner = f'{begin}; {command} {stem}"{index}" "{index}" {shlex.join(amounts)}'
        on_node = f"/bin/sh -c {shlex.quote(inner)}"
        if not isinstance(self.launcher, HostLauncher):
            return f"exec {self.launcher.prefix} {on_node}"
        starter = shlex.quote(str((home.root / PROGRAM).with_name(STARTER)))
        words = shlex.join((str(self.nodes), self.launcher.hint, *self.launcher.start))
        return f"{begin}\nexec {_INTERPRETER} {starter} {words} -- {on_node} -- {self.launcher.hosts}"


def mail_path(home: RunPaths, number: int, node: int) -> Path:
    """Return the mailbox of a node, from 0, of an allocation."""
    return home.root / "mail" / f"{number:05}.{node}"


def margin_s(walltime_s: float) -> float:
    """Return the seconds at the end of an allocation in which nothing may run."""
    return min(_MOST_MARGIN_S, max(_LEAST_MARGIN_S, MARGIN_SHARE * walltime_s), walltime_s / 2)


class AllocationNews(msgspec.Struct, frozen=True, kw_only=True):
    """Allocations of a run as the batch system has them, by their numbers from 1.

    Attributes
    ----------
    pending
        All that were requested and have not begun.
    running
        All that have begun and are not known to be gone.
    gone
        Those that the batch system says are over, with the reason: nothing of them runs, and they never begin again.
        Each is told once per life at least, also those that went in earlier lives.
    waiting
        Numbers of pending allocations per reason, in the batch system's own words.
    refused
        Why the latest requests were refused for good; empty if they were not.
    note
        Note for users while it lasts, such as that the batch system does not answer.
    """

    pending: Sequence[int] = ()
    running: Sequence[int] = ()
    gone: Mapping[int, str] = msgspec.field(default_factory=dict)
    waiting: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    refused: str = ""
    note: str = ""


class AllocationSource(Protocol):
    """Requests allocations from a batch system, in which it starts the pilot program on each node.

    The source gives the numbers. No number is given twice in a run, also not in another life of the engine.
    """

    def open(self, run: RunPaths, life: int) -> None:
        """Get ready for one life of a run's engine; called once, before all else."""

    def request(self, count: int) -> None:
        """Ask for so many more allocations; never blocks long. The next `poll` lists them as pending."""

    def poll(self) -> AllocationNews | Unreachable:
        """Return the allocations of all lives as they are now, and which are gone since the last call."""

    def cancel(self, numbers: Collection[int]) -> None:
        """End allocations, pending or running, with all that runs in them; `poll` tells when they are gone."""

    def mailboxes(self, number: int) -> Sequence[Path]:
        """Return the mailbox folders of an allocation, one per node; they exist once it is listed as pending."""

    def close(self) -> None:
        """Release the resources of this life; allocations go on."""


# Submission, and the way through the queue.


LOG: Final = logging.getLogger("longshore.batch")

_ATTEMPT: Final = 1
"""Number of the only attempt of an allocation."""
_TAKEN: Final = "taken"
"""File in the first mailbox of an allocation, by which its number is taken."""
_MIN_PAUSE_S: Final = 15.0
_MAX_PAUSE_S: Final = 300.0
"""Longest pause after a refused or failed allocation; the pause doubles each time."""
_SHORT_LIFE_S: Final = 30.0
"""Run time below which the failure of an allocation is taken for one of all allocations."""
LOG_NAME: Final = "logs/{:05}.log"
"""Log of an allocation, in the run directory of the allocations."""
NEVER_SUBMITTED: Final = "the allocation was never submitted"


class AllocationTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What each allocation asks for: its request on each node, attributes, and settings of the service."""

    request: Request
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)


class BatchAllocations(AllocationSource):
    """Allocations that an executor of the batch kit submits, each as a job of its own or in an array.

    The executor works in a run directory of its own, ``pilots/`` in that of the run. The number of an allocation is
    that of its job there. A number is taken for good by making its mailboxes, before the allocation is submitted.
    `token` gives the part of the jobs' names that tells a run from all others.
    """

    def __init__(
        self,
        executor: Executor,
        terms: AllocationTerms,
        launch: PilotLaunch,
        *,
        token: Callable[[RunPaths], str] = lambda run: read_card(run).run_token,
        clock: Clock | None = None,
    ) -> None:
        self._executor = executor
        self._token = token
        self._terms = terms
        self._launch = launch
        self._clock = clock or SystemClock()
        self._home = RunPaths(Path())
        self._tag = ""
        self._batches = 0
        self._mark: Mark = ""
        self._next = 1
        self._requested = 0
        """Allocations that were asked for and have no number yet."""
        self._wanted: deque[int] = deque()
        """Numbers that have mailboxes, and are not submitted."""
        self._pending: set[int] = set()
        """Numbers that were submitted and have not started."""
        self._running: dict[int, float] = {}
        """Numbers that run, with the moment when that was seen."""
        self._unanswered: dict[str, frozenset[int]] = {}
        """Numbers per batch of which it is not known whether it was taken."""
        self._doomed: set[int] = set()
        """Numbers to cancel once it is known whether their batch was taken."""
        self._gone: dict[int, str] = {}
        """Numbers that are gone, not yet reported, and why."""
        self._waiting: WaitReasons = WaitReasons()
        self._pause_until = 0.0
        self._pause_s = _MIN_PAUSE_S
        self._trouble = ""
        """Why allocations are refused or fail; empty once one has run."""
        self._put_off = ""
        """Why the newest allocation is not taken for now."""
        self._refused = ""
        """Why the newest allocation was refused that would be refused again."""

    # ------------------------------------------------------------------------------------------------------- begin

    def open(self, run: RunPaths, life: int) -> None:
        """Get ready for one life of the run's engine."""
        # The engine's own batches have a number where these have a letter.
        self._home, self._tag = RunPaths(run.pilots), f"{tag_prefix(self._token(run), life)}-p"
        write_scripts(run, self._home)
        self._executor.open(self._home, life)
        alive: set[int] = set()
        for record in BatchRecords(self._home).all():
            numbers = frozenset(number for number, _ in record.members)
            alive |= numbers
            if record.id is None:
                self._unanswered[record.tag] = numbers
            self._pending |= numbers
        known = numbers_of_mailboxes(self._home)
        self._next = max(known | alive, default=0) + 1
        for number in sorted(known - alive):
            self._gone[number] = "it is over, or was never submitted"

    def mailboxes(self, number: int) -> Sequence[Path]:
        """Return the mailboxes of an allocation, one per node."""
        return [mail_path(self._home, number, node) for node in range(self._launch.nodes)]

    # ------------------------------------------------------------------------------------------------------ submit

    def request(self, count: int) -> None:
        """Ask for so many more allocations; they are submitted by and by, when `poll` is called."""
        self._requested += count

    def _take_numbers(self) -> str:
        """Take a number for each allocation that was asked for; return why that is not possible, else nothing."""
        try:
            while self._requested:
                self._wanted.append(self._take_number())
                self._requested -= 1
        except OSError as error:
            return f"no mailbox for a pilot can be made: {describe_failed_write(error, self._home.root)}"
        return ""

    def _take_number(self) -> int:
        """Make the mailboxes of a new number, which belongs to the process that makes the file in the first one."""
        while True:
            number, self._next = self._next, self._next + 1
            mailboxes = self.mailboxes(number)
            for mailbox in mailboxes:
                make_folders(mailbox, below=self._home.root, durable=True)
            # The listing of the folder, by which the next number is chosen, may be older than the newest mailbox.
            with suppress(FileExistsError):
                create_atomically(mailboxes[0] / _TAKEN, b"", below=self._home.root)
                return number

    def _submit(self) -> None:
        """Submit the requested allocations, within the site's limits."""
        if self._unanswered or not self._wanted or self._clock.elapsed() < self._pause_until:
            return
        if free_submissions(self._executor) == 0:
            return
        limits = self._executor.limits
        most = min(len(self._wanted), max_batch_for(self._executor, self._terms.settings))
        if limits.max_waiting is not None:
            most = min(most, limits.max_waiting - len(self._pending))
        if limits.max_active is not None:
            most = min(most, limits.max_active - len(self._pending) - len(self._running))
        if most < 1:
            return
        numbers = [self._wanted.popleft() for _ in range(most)]
        self._batches += 1
        batch = self._batch_of(f"{self._tag}{self._batches}", numbers)
        self._take_answer(batch.tag, frozenset(numbers), self._executor.submit(batch))

    def _batch_of(self, tag: str, numbers: Iterable[int]) -> Batch:
        members = tuple(
            BatchMember(
                job=number,
                attempt=_ATTEMPT,
                name=f"pilot-{number:05}",
                command=("/bin/sh", "-c", self._launch.script(self._home, number)),
                environment={},
                working_directory=str(self._home.root.parent),
                log=LOG_NAME.format(number),
            )
            for number in numbers
        )
        return Batch(
            id=tag,
            tag=tag,
            request=self._terms.request,
            members=members,
            attributes=self._terms.attributes,
            settings=self._terms.settings,
        )

    def _take_answer(self, tag: str, numbers: frozenset[int], answer: SubmitResult) -> None:
        self._put_off = answer.why if isinstance(answer, Throttled) else ""
        match answer:
            case Accepted():
                self._pending |= numbers
                self._refused = ""
            case Throttled():
                self._wanted.extendleft(sorted(numbers, reverse=True))
                self._pause_until = self._clock.elapsed() + answer.retry_after_s
            case Rejected():
                self._refused = answer.why if answer.hopeless else ""
                self._fail(answer.why)
                self._gone |= dict.fromkeys(sorted(numbers), answer.why)
            case _:
                self._pending |= numbers
                self._unanswered[tag] = numbers

    def _fail(self, why: str) -> None:
        """Pause after an allocation that was refused, or that failed at once: the next one may do the same."""
        self._trouble = why
        self._pause_until = self._clock.elapsed() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
        LOG.warning("an allocation for pilots failed: %s", why)

    def _find_unanswered(self) -> None:
        """Look up the batches whose submission was not answered."""
        for tag, numbers in list(self._unanswered.items()):
            found = self._executor.find([tag])
            if isinstance(found, Unreachable):
                return
            del self._unanswered[tag]
            if tag in found.late:
                self._pending -= numbers
                self._take_answer(tag, numbers, found.late[tag])
            else:
                taken = frozenset(number for number, _ in found.taken.get(tag, ()))
                missing = numbers - taken
                self._pending -= missing
                self._gone |= dict.fromkeys(sorted(missing), NEVER_SUBMITTED)
                self._cancel_submitted(taken & self._doomed)
            self._doomed -= numbers

    # -------------------------------------------------------------------------------------------------------- poll

    def poll(self) -> AllocationNews | Unreachable:
        """Return what became of the allocations since the last call."""
        self._find_unanswered()
        failed = self._take_numbers()
        self._submit()
        answer = self._executor.poll(self._mark)
        note = ""
        if not isinstance(answer, Unreachable):
            self._mark, note = answer.mark, answer.note
            self._waiting = self._waiting if answer.waiting is None else answer.waiting
            for event in answer.events:
                self._take_event(event)
            ended = [(event.j, event.a) for event in answer.events if not isinstance(event, Started)]
            discard_ends(self._executor, ended)
        elif not self._gone:
            return answer
        gone, self._gone = self._gone, {}
        return AllocationNews(
            pending=sorted(self._pending | set(self._wanted)),
            running=sorted(self._running),
            gone=gone,
            waiting={**self._waiting.reasons, **({self._put_off: tuple(self._wanted)} if self._put_off else {})},
            refused=self._refused,
            note="; ".join(filter(None, (note, failed, *self._notes()))),
        )

    def _notes(self) -> Iterator[str]:
        """Yield what users should know of the allocations."""
        if self._trouble:
            yield f"the newest allocation for pilots failed: {self._trouble}"
        if self._put_off and self._wanted:
            yield f"no allocation for pilots for now: {self._put_off}"
        waiting = self._waiting
        for reason, mend in waiting.hopeless.items():
            if self._pending.intersection(waiting.reasons.get(reason, ())):
                yield f"pilots can never start ({reason}): {mend}"
        for reason in sorted(waiting.held):
            if self._pending.intersection(waiting.reasons.get(reason, ())):
                yield "; ".join(filter(None, (f"pilots are held by the workload manager ({reason})", waiting.hint)))

    def _take_event(self, event: MemberEvent) -> None:
        number = event.j
        self._pending.discard(number)
        if isinstance(event, Started):
            self._running[number] = self._clock.elapsed()
            return
        since = self._running.pop(number, None)
        why = end_words(event)
        self._gone[number] = why
        if since is not None and (self._clock.elapsed() - since >= _SHORT_LIFE_S or is_good(event)):
            self._trouble, self._pause_s = "", _MIN_PAUSE_S
        elif not is_good(event) and number not in self._doomed:
            self._fail(f"{why}; see '{self._home.root / LOG_NAME.format(number)}'")
        self._doomed.discard(number)

    # --------------------------------------------------------------------------------------------------------- end

    def cancel(self, numbers: Collection[int]) -> None:
        """Cancel allocations; `poll` reports when they are gone."""
        for number in [each for each in self._wanted if each in numbers]:
            self._wanted.remove(number)
            self._gone[number] = NEVER_SUBMITTED
        unanswered: set[int] = set().union(*self._unanswered.values())
        live = {number for number in numbers if number in self._pending or number in self._running}
        self._doomed |= live
        self._cancel_submitted(live - unanswered)

    def _cancel_submitted(self, numbers: Collection[int]) -> None:
        if numbers:
            self._executor.cancel([(number, _ATTEMPT) for number in sorted(numbers)], grace_s=0.0)

    def close(self) -> None:
        """Release the resources of this life."""
        self._executor.close()


def write_scripts(run: RunPaths, home: RunPaths) -> None:
    """Write what allocations run: the pilot program, and the template and the wrapper of the newest submission."""
    source = submission_paths(run).root
    texts = {path: read_file(_newest(source, run.root, path)) for path in (BATCH_TEMPLATE, WRAPPER)}
    # The file that is run comes last, so that the others are there when it begins.
    texts |= {PROGRAM.parent / name: text for name, text in program_files().items()}
    for path, text in texts.items():
        target = home.root / path
        with suppress(OSError):
            if read_file(target) == text:
                continue
        make_folders(target.parent, below=run.root, durable=True)
        mode = 0o755 if path == WRAPPER else 0o644
        write_atomically(target, text, below=run.root, durable=True, mode=mode)


def _newest(source: Path, root: Path, path: PurePosixPath) -> Path:
    """Return the place of a file of the newest submission, which may have only those that changed."""
    return source / path if (source / path).exists() else root / path


def numbers_of_mailboxes(home: RunPaths) -> set[int]:
    """Return the numbers that were taken."""
    try:
        names = [path.name.partition(".")[0] for path in mail_path(home, 1, 0).parent.iterdir()]
    except OSError:
        return set()
    return {int(name) for name in names if name.isdecimal()}


def is_good(event: Ended | Lost) -> bool:
    """Whether an allocation ended well."""
    return isinstance(event, Ended) and event.cause is None


def end_words(event: Ended | Lost) -> str:
    """Return why an allocation is gone."""
    if isinstance(event, Lost):
        return event.why
    if event.cause is None:
        return "the pilot ended"
    status = f"exit code {event.exit}" if event.exit is not None else ""
    words = event.reason or status or event.cause.lower()
    return f"{'preempted' if event.cause is Cause.PREEMPTED else 'the allocation ended'}: {words}"
