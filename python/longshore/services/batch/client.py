"""How the programs of a workload manager are called: at which pace, how often again, and by this module alone."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from longshore.config.quantities import parse_walltime
from longshore.contract.service import Unreachable
from longshore.errors import ConfigError, SubmissionRefusedError
from longshore.model.values import YamlValue
from longshore.rundir.registry import state_folder
from longshore.rundir.run_directory import user_name_of
from longshore.services.batch.answers import SubmitOutcome
from longshore.services.batch.dialect import Dialect, ProgramCall
from longshore.services.batch.jobs import AccountRow, ClusterFacts, QueueRow, TaskId, find_row
from longshore.sites.inherited_environment import InheritRule, select_inherited
from longshore.system.host import host_name, user_name
from longshore.system.programs import BackgroundCall, ProgramResult, Shell, SystemShell
from longshore.system.sharing import (
    CachedAnswer,
    OwnTroubleError,
    RateLimit,
    SharedBatch,
    cached_answer,
    seconds_since_boot,
)

BURST: Final = 5
"""Calls of one program that may follow each other at once, after a pause."""


class CallPace:
    """At most one call of each program per `interval_s` seconds, beyond a burst of `BURST`.

    Each loop has an interval of its own. This bound holds for all of them together, so that a loop that misreads its
    answers cannot load the controller.
    """

    def __init__(
        self,
        interval_s: float,
        *,
        now: Callable[[], float] = seconds_since_boot,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = interval_s
        self._burst_s = (BURST - 1) * interval_s
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next_s: dict[str, float] = {}
        """Per program, when its next call is due without bursts."""

    def wait(self, program: str) -> None:
        """Wait for the turn of a call, and take it."""
        with self._lock:
            now = self._now()
            next_s = max(self._next_s.get(program, now), now)
            self._next_s[program] = next_s + self._interval_s
        if (wait_s := next_s - self._burst_s - now) > 0.0:
            self._sleep(wait_s)


# The queue's interval is short while there is news, grows without news, and is never below a floor.


FLOOR_S: Final = 2.0
CEILING_S: Final = 60.0
_INTERVAL_GROWTH: Final = 1.5
"""Factor by which the interval grows with each answer without news."""

_FAILURE_CEILING_S: Final = 15.0
"""Longest interval while the controller does not answer, so that its return is noticed soon."""


class PollSchedule:
    """Schedule of queue queries; `floor_s` and `ceiling_s` bound the interval, times are seconds since boot."""

    def __init__(self, floor_s: float = FLOOR_S, ceiling_s: float = CEILING_S) -> None:
        self.floor_s = floor_s
        self.ceiling_s = max(ceiling_s, floor_s)
        self.interval_s = floor_s
        self.queried_at = -1e9
        """When the newest answer was requested."""
        self.not_before = 0.0
        """Answers to queries before this moment are too old."""
        self.failure = ""
        """Why the newest query failed; until it is cleared, the controller gets no other queries."""

    def is_due(self, now: float) -> bool:
        """Whether the next query is due."""
        return now - self.queried_at >= self.interval_s

    def reset_interval(self) -> None:
        """Use the shortest interval, because something happens."""
        if not self.failure:
            self.interval_s = self.floor_s

    def request_query(self, now: float) -> None:
        """Query as soon as allowed, and reject answers to earlier queries."""
        self.not_before = max(self.not_before, now)
        self.reset_interval()

    def record_answer(self, queried_at: float) -> None:
        """Record an answer."""
        if self.failure:
            self.interval_s = self.floor_s
        self.failure = ""
        self.queried_at = queried_at
        self.interval_s = min(self.interval_s * _INTERVAL_GROWTH, self.ceiling_s)

    def record_failure(self, now: float, why: str) -> None:
        """Record a failed query: the interval grows, because silence says nothing about jobs."""
        self.failure = why
        self.queried_at = now
        self.interval_s = min(self.interval_s * _INTERVAL_GROWTH, max(_FAILURE_CEILING_S, self.floor_s), self.ceiling_s)


def poll_schedule(service: str, own: Mapping[str, YamlValue], floor_s: float = 0.0) -> PollSchedule:
    """Make the schedule from a service's map (``pollInterval``, ``pollCeiling``), never below the site's floor.

    Raises `ConfigError` when a value is no time.
    """
    interval_s = _seconds(service, own, "pollInterval", FLOOR_S)
    ceiling_s = _seconds(service, own, "pollCeiling", CEILING_S)
    if ceiling_s < interval_s and own.get("pollCeiling") is not None:
        raise ConfigError(
            f"'{service}.pollCeiling' ({own['pollCeiling']}) is below '{service}.pollInterval' ({interval_s:g} s)",
            hint="The queue is queried at most once per 'pollInterval', and at least once per 'pollCeiling'.",
        )
    return PollSchedule(max(floor_s, interval_s), ceiling_s)


def _seconds(service: str, own: Mapping[str, YamlValue], name: str, default_s: float) -> float:
    value = own.get(name)
    seconds = default_s if value is None else parse_walltime(value, f"{service}.{name}")
    if seconds <= 0:
        raise ConfigError(
            f"'{service}.{name}' must be a time above 0, not '{value}'", hint=f"The default is {default_s:g}."
        )
    return seconds


# Commands run in the background, each until it succeeds or is not wanted. A success is not proof: a command that is
# wanted all the same, some time later, is run again.


LOG: Final = logging.getLogger("longshore.batch")

_RETRY_S: Final = 10.0
"""Pause after a failed command."""
CONFIRM_S: Final = 30.0
"""Time after which a command that succeeded must have had its effect: schedulers let jobs end by themselves first."""


class PendingCommand(msgspec.Struct, frozen=True):
    """A command to the workload manager.

    `run` returns the failed answer, or ``None``. `is_wanted` says whether the command, or its retry, is still needed.
    """

    run: Callable[[], ProgramResult | None]
    is_wanted: Callable[[], bool]


class PendingCommands:
    """The pending commands."""

    def __init__(self) -> None:
        self._queue: list[PendingCommand] = []
        self._call: BackgroundCall[ProgramResult | None] = BackgroundCall()
        self._current: PendingCommand | None = None
        self._retry_at = 0.0
        self._unconfirmed: list[tuple[float, PendingCommand]] = []
        """Commands that succeeded, each with the time by which it must not be wanted any more."""

    def add(self, command: PendingCommand, *, first: bool = False) -> None:
        """Add a command; an urgent one goes first."""
        self._queue.insert(0 if first else len(self._queue), command)

    def run_next(self, now: float, *, timeout_s: float = 0.0) -> None:
        """Make progress, at a moment `now` (seconds since boot); waits for an answer up to `timeout_s`."""
        self._start_next(now)
        for failed in self._call.take_result(timeout_s=timeout_s):
            command, self._current = self._current, None
            if command is not None and failed is None:
                self._unconfirmed.append((now + CONFIRM_S, command))
            if failed is not None and command is not None:
                LOG.warning("%s: %s", failed.argv[0], failed.why)
                self._retry_at = now + _RETRY_S
                self._queue.append(command)
        self._start_next(now)

    def is_pending(self, command: PendingCommand) -> bool:
        """Whether a command has not succeeded yet, or has to be run again."""
        return command is self._current or any(each is command for each in self._queue)

    def _start_next(self, now: float) -> None:
        self._unconfirmed = [(due, command) for due, command in self._unconfirmed if command.is_wanted()]
        self._queue += [command for due, command in self._unconfirmed if now >= due]
        self._unconfirmed = [(due, command) for due, command in self._unconfirmed if now < due]
        self._queue = [command for command in self._queue if command.is_wanted()]
        if self._queue and not self._call.is_busy and now >= self._retry_at:
            self._current = self._queue.pop(0)
            self._call.start(self._current.run)


_PAUSES_S: Final = (1.0, 2.0, 4.0)
"""Pauses between the tries of a submission whose id a user waits for."""
_OF_CENTRE: Final = frozenset({SubmitOutcome.THROTTLED, SubmitOutcome.CLOSED, SubmitOutcome.UNREACHABLE})
_OF_LOADER: Final = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_FIELDS_AGE_S: Final = 86_400.0
"""Age up to which it is known which fields accounting has: they change with the version."""


class AccountingAnswer(msgspec.Struct, frozen=True):
    """Answer of accounting to a question of several processes: the tasks that were asked for, and their rows."""

    tasks: frozenset[TaskId]
    rows: Mapping[TaskId, AccountRow] | Unreachable


class BatchClient:
    """The programs of a workload manager, for one cluster.

    `setup` holds lines of shell that run before each program, such as ``module load``. `inherit` selects the
    variables that jobs inherit; see `longshore.sites.inherited_environment.select_inherited`.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        shell: Shell | None = None,
        setup: Sequence[str] = (),
        inherit: InheritRule = "all",
    ) -> None:
        self.dialect = dialect
        self._log = logging.getLogger(f"longshore.{dialect.name}")
        self._shell = shell or SystemShell()
        self._setup = tuple(setup)
        self._env = dialect.environment(os.environ)
        self._known_fields: str | None = None
        """What accounting says of its fields; ``None`` before the first query."""
        names, _ = select_inherited(self._env, inherit)
        required = dialect.variables.required
        self._submit_environment = {name: self._env[name] for name in self._env if name in names or name in required}
        self.pace: CallPace | None = None
        """Pace of all calls but submissions, which have a rate limit; ``None`` for a command of a person."""
        self.calls: dict[str, int] = {}
        """Number of calls per program."""

    @property
    def scrubbed(self) -> list[str]:
        """Names of the variables that the programs do not get."""
        return sorted(os.environ.keys() - self._env.keys())

    # ------------------------------------------------------------------------------------------------------ submit

    def submit(self, script: str, *options: str) -> ProgramResult:
        """Submit a script, with options beside those in the script."""
        return self.ask(self.dialect.submit_call(script, options), env=self._submit_environment)

    def submit_with_id(self, script: str, *options: str, what: str) -> int:
        """Submit a script and return the id, for a command that goes on only with it; `what` names the job.

        What passes in a moment is waited for. Raises `SubmissionRefusedError`: nothing is left to be charged for it, so
        that a user submits the run again once a condition of the centre has passed.
        """
        for pause_s in (*_PAUSES_S, None):
            answer = self.submit(script, *options)
            reply = self.dialect.submit_reply(answer)
            if reply.id is not None:
                return reply.id
            if pause_s is None or not reply.outcome.is_passing:
                break
            time.sleep(pause_s)
        if reply.outcome in _OF_CENTRE:
            raise SubmissionRefusedError(
                f"{self.dialect.title} does not take {what} for now: {answer.why}",
                hint="That is no fault of the run. Nothing of it is submitted; try again when it has passed.",
            )
        raise SubmissionRefusedError(f"{self.dialect.title} does not take {what}: {answer.why}")

    def submit_rate_limit(self, per_s: float) -> RateLimit:
        """Return the rate limit on submissions for all processes of this user on this host."""
        program = self.dialect.programs.submit
        return RateLimit(state_folder() / "newest" / f"{program}-{self._cluster_digest}.turns", per_s)

    # --------------------------------------------------------------------------------------------------------- ask

    def queue(self, *, max_age_s: float, not_before: float = 0.0, floor_s: float = 0.0) -> CachedAnswer | None:
        """Return the queue of all of this user's jobs, shared by all processes here (`cached_answer`)."""
        program = self.dialect.programs.queue
        path = state_folder() / "newest" / f"{program}-{self._share_digest(program)}.json"
        return cached_answer(
            path, max_age_s=max_age_s, query=self._ask_queue, not_before=not_before, min_interval_s=floor_s
        )

    def rows(self, answer: CachedAnswer) -> Iterator[QueueRow]:
        """Return the rows of an answer of `queue`; none of one that failed."""
        return self.dialect.parse_queue(answer.text or "")

    def _ask_queue(self) -> tuple[str | None, str]:
        answer = _answered(self.ask(self.dialect.queue_call(user_name())))
        return (answer.out, "") if answer.ok else (None, answer.why)

    @property
    def _cluster_digest(self) -> str:
        which = f"{self.dialect.cluster_key(self._env)}\0{user_name()}"
        return sha256(which.encode()).hexdigest()[:16]

    def _share_digest(self, program: str) -> str:
        """Return what is equal where processes share the answers of a program.

        That is the program's file, what it loads, the lines that run before it, the cluster, and the user.
        """
        name, path = self.dialect.query_call(program).argv[0], self._env.get("PATH", "")
        found = shutil.which(name, path=path)
        # Lines of set-up may choose any program by what they find here.
        chosen = (*self._setup, path, self._env.get("MODULEPATH", "")) if self._setup or found is None else ()
        loaded = (self._env.get(each, "") for each in _OF_LOADER)
        which = (os.path.realpath(found or name), *chosen, *loaded, self._cluster_digest)
        return sha256("\0".join(which).encode(errors="surrogateescape")).hexdigest()[:16]

    def query_accounting(self, tasks: Iterable[TaskId]) -> dict[TaskId, AccountRow] | Unreachable:
        """Query accounting for tasks."""
        try:
            texts, why = self._ask_accounting(tasks)
        except OwnTroubleError as error:
            return Unreachable(why=str(error))
        return Unreachable(why=why) if texts is None else self._rows_of(texts)

    def accounting_share(self, purpose: str) -> SharedBatch:
        """Return this process's share in the questions that all processes here ask accounting, for one purpose."""
        program = self.dialect.programs.accounting
        # Lists of wanted tasks are removed by the host that wrote them.
        host = sha256(host_name().encode()).hexdigest()[:8]
        folder = state_folder() / "newest" / f"{program}-{self._share_digest(program)}-{host}"
        return SharedBatch(folder, f"{os.getpid()}-{purpose}-{id(self)}")

    def ask_accounting(
        self, share: SharedBatch, wanted: Mapping[TaskId, float], *, min_interval_s: float
    ) -> AccountingAnswer | None:
        """Query accounting for tasks together with all processes here (`SharedBatch.ask`)."""
        moments = {str(task): moment for task, moment in wanted.items()}
        answer = share.ask(
            moments, lambda names: self._ask_accounting(map(TaskId.from_text, names)), min_interval_s=min_interval_s
        )
        if answer is None:
            return None
        rows = Unreachable(why=answer.why) if answer.texts is None else self._rows_of(answer.texts)
        return AccountingAnswer(frozenset(task for task in wanted if str(task) in answer.items), rows)

    def _ask_accounting(self, tasks: Iterable[TaskId]) -> tuple[tuple[str, ...] | None, str]:
        texts: list[str] = []
        for call in self.dialect.accounting_calls(tasks, self._fields()):
            answer = _answered(self.ask(call))
            if not answer.ok:
                return None, answer.why
            texts.append(answer.out)
        return tuple(texts), ""

    def _rows_of(self, texts: Iterable[str]) -> dict[TaskId, AccountRow]:
        rows: dict[TaskId, AccountRow] = {}
        for text in texts:
            rows |= self.dialect.parse_accounting(text, self._fields())
        return {task: _with_user_name(row) for task, row in rows.items()}

    def _fields(self) -> str:
        """Return what accounting says of its fields; asked once a day by all processes here."""
        call = self.dialect.accounting_fields_call()
        if self._known_fields is None and call is not None:
            program = self.dialect.programs.accounting
            path = state_folder() / "newest" / f"{program}-fields-{self._share_digest(program)}.json"
            cached = cached_answer(path, max_age_s=_FIELDS_AGE_S, query=lambda: (self._ask_fields(call), ""))
            with suppress(OwnTroubleError):
                self._known_fields = self._ask_fields(call) if cached is None else cached.text
        return self._known_fields or ""

    def _ask_fields(self, call: ProgramCall) -> str:
        answer = self.ask(call)
        if not answer.ok:
            # No failure holds for a day.
            raise OwnTroubleError(answer.why)
        return answer.out

    def query_accounting_by_name(self, name: str, *, since: str) -> dict[TaskId, AccountRow] | Unreachable:
        """Query accounting for jobs of a name that existed since a moment (local time, ISO-8601)."""
        call = self.dialect.accounting_by_name_call(name, since=since, user=user_name())
        if call is None:
            return {}
        answer = self.ask(call)
        return self.dialect.parse_accounting(answer.out) if answer.ok else Unreachable(why=answer.why)

    def show_job(self, task: TaskId) -> AccountRow | Unreachable | None:
        """Query the controller for a task; ``None`` when it no longer has it."""
        call = self.dialect.show_call(task)
        return None if call is None else self.dialect.parse_shown(task, self.ask(call))

    def show_jobs(self, tasks: Iterable[TaskId]) -> dict[TaskId, AccountRow | Unreachable | None]:
        """Query the controller for tasks that never started or left no record, with one call per array.

        The first call without an answer is the last one; tasks after it are not in the result.
        """
        by_job: dict[int, list[TaskId]] = {}
        for task in tasks:
            by_job.setdefault(task.job, []).append(task)
        shown: dict[TaskId, AccountRow | Unreachable | None] = {}
        for job, these in by_job.items():
            call = self.dialect.show_call(TaskId(job)) if len(these) > 1 else None
            if call is None:
                shown |= {task: self.show_job(task) for task in these}
            else:
                rows = self.dialect.parse_shown_array(self.ask(call))
                for task in these:
                    shown[task] = rows if isinstance(rows, Unreachable) else find_row(rows, task, self.dialect.states)
            if any(isinstance(shown[task], Unreachable) for task in these):
                # When one query gets no answer, the others get none either.
                break
        return shown

    def query_facts(self) -> ClusterFacts | Unreachable:
        """Query the controller for facts of its cluster."""
        outputs: list[str] = []
        for call in self.dialect.facts_calls():
            answer = self.ask(call)
            if not answer.ok and not outputs:
                return Unreachable(why=answer.why)
            outputs.append(answer.out if answer.ok else "")
        return self.dialect.parse_facts(outputs)

    def ask(self, call: ProgramCall, *, env: Mapping[str, str] | None = None) -> ProgramResult:
        """Make a call, and its alternative where the answer is useless."""
        answer = self._run_once(call, env)
        while call.otherwise is not None and self.dialect.is_useless(call, answer):
            call = call.otherwise
            answer = self._run_once(call, env)
        return answer

    def boot_time(self, nodes: str) -> float | None:
        """Query when nodes booted last; ``None`` if that is unknown (`Dialect.boot_question`)."""
        question = self.dialect.boot_question(nodes)
        answer = self.ask(question.call) if question else None
        return question.parse(answer.out) if question and answer and answer.ok else None

    # --------------------------------------------------------------------------------------------------------- act

    def cancel(self, tasks: Iterable[TaskId]) -> ProgramResult | None:
        """Cancel tasks; return the first failed call, or ``None``."""
        return self.run_all(self.dialect.cancel_calls(tasks))

    def cancel_waiting(self, tasks: Iterable[TaskId]) -> ProgramResult | None:
        """Cancel those tasks that have not started; return the first failed call, or ``None``."""
        return self.run_all(self.dialect.cancel_calls(tasks, waiting_only=True))

    def cancel_named(self, name: str) -> ProgramResult:
        """Cancel all jobs of a name."""
        return self.ask(self.dialect.cancel_named_call(name, user_name()))

    def set_priorities(self, priorities: Mapping[int, int]) -> ProgramResult | None:
        """Change the priority of waiting jobs; ignores jobs that are gone."""
        return self.run_all(self.dialect.priority_calls(priorities))

    def run_all(self, calls: Iterable[ProgramCall]) -> ProgramResult | None:
        """Run calls until one fails; return that, or ``None``."""
        for call in calls:
            answer = self.ask(call)
            if not answer.ok:
                return answer
        return None

    # ---------------------------------------------------------------------------------------------------------------

    def _run_once(self, call: ProgramCall, env: Mapping[str, str] | None) -> ProgramResult:
        words = call.argv
        if self.pace is not None and words[0] != self.dialect.programs.submit:
            self.pace.wait(words[0])
        self.calls[words[0]] = self.calls.get(words[0], 0) + 1
        argv: Sequence[str] = words
        if self._setup:
            argv = ["/bin/sh", "-c", "\n".join([*self._setup, 'exec "$@"']), words[0], *words]
        self._log.debug("asked: %s%s", shlex.join(words), f"\n{call.stdin}" if call.stdin else "")
        answer = self._shell.run(
            argv, env=self._env if env is None else env, timeout_s=call.timeout_s, stdin=call.stdin
        )
        self._log.debug(
            "%s answered %s in %.2f s: %s%s", words[0], answer.status, answer.seconds, answer.out, answer.err
        )
        return self.dialect.read_answer(call, answer)


def _answered(answer: ProgramResult) -> ProgramResult:
    """Return an answer that is the manager's; raises `OwnTroubleError` for a program that is missing or fails."""
    if answer.has_answered:
        return answer
    if answer.is_missing:
        raise OwnTroubleError(f"the program cannot be run here: {answer.why}")
    if answer.status is not None:
        raise OwnTroubleError(f"the program crashed (status {answer.status}): {answer.why}")
    raise OwnTroubleError(answer.why)


def _with_user_name(row: AccountRow) -> AccountRow:
    """Return a row whose state has the name of the user who removed the task, in place of a number."""
    if row.removed_by is None:
        return row
    return msgspec.structs.replace(row, state_text=f"{row.state} by {user_name_of(row.removed_by)}")
