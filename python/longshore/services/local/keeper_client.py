"""Client of the keepers: starts one per life of the engine, sends it commands, and reads the records of all."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from longshore.contract.executor import AttemptId, MemberEvent
from longshore.contract.service import RUN_FOLDER_VARIABLE, RunPaths
from longshore.engine.outer_job import OUTER_VARIABLE
from longshore.errors import RunUnreadableError
from longshore.keeper.program.kernel import become_subreaper
from longshore.keeper.protocol import (
    JOB_VARIABLE,
    RUN_VARIABLE,
    ExitRecord,
    MemberOrder,
    NeverStartedRecord,
    Order,
    RunOrder,
    StartRecord,
    attempt_name,
    encode_order,
    end_event,
    exit_event,
    run_token,
    start_event,
)
from longshore.model.event import Lost
from longshore.rundir.batch_records import life_of_tag
from longshore.rundir.check_records import newest_acceptance
from longshore.rundir.journal import first_event, first_life_of_workflow, life_path
from longshore.services.local.keeper_file import KeeperFile, keeper_files, received_members, recorded_attempts
from longshore.services.local.keeper_process import KeeperProcess
from longshore.services.local.orphaned_attempts import OrphanedAttempts, remove_folder
from longshore.sites.inherited_environment import InheritRule, select_inherited
from longshore.system.folder import make_folders
from longshore.system.host import boot_id, host_name, is_same_process, process_name, processes_with_variable
from longshore.system.processes import processes, signal_group, signal_process


def encode_command(order: Order) -> bytes:
    """Encode a command for the keeper as a line."""
    return encode_order(cast("Mapping[str, object]", order)) + b"\n"


class ReusedAttempts:
    """Attempts of the lives since the newest acceptance of a loss; none without one.

    The journal may lack attempts that earlier lives made, so that their numbers are given again.
    """

    def __init__(self, run: RunPaths) -> None:
        self._accepted = newest_acceptance(run) or 0
        self._attempts: set[AttemptId] = set()
        if self._accepted:
            for file in keeper_files(run.keeper).values():
                if file.life >= self._accepted:
                    self._attempts |= recorded_attempts(file)

    def add(self, attempts: Iterable[AttemptId]) -> None:
        """Add attempts that are sent to a keeper now."""
        if self._accepted:
            self._attempts.update(attempts)

    def of_older_life(self, file: KeeperFile) -> frozenset[AttemptId]:
        """Return the attempts that a keeper's records are not about, though they have their numbers."""
        return frozenset(self._attempts) if file.life < self._accepted else frozenset()

    def select_valid(self, file: KeeperFile, events: Iterable[MemberEvent]) -> Iterable[MemberEvent]:
        """Return the events that a keeper's records tell of attempts that still have their numbers."""
        if file.life >= self._accepted:
            return events
        return [each for each in events if (each.j, each.a) not in self._attempts]


_KILL_ROUNDS: Final = 20
"""Maximum number of repeated searches, because processes may start others meanwhile."""
_DRAIN_LIMIT_S: Final = 20.0
"""Seconds a keeper that lost its engine may take to read commands already sent."""
_INNER_LIMIT_S: Final = 20.0
"""Seconds that runs inside of jobs may take to end when this one is cancelled."""
_END_LIMIT_S: Final = 2.0
"""Seconds a keeper may take to end when it has nothing left to do."""


class LocalClient:
    """The keepers of one run, for the engine of one life.

    `life` numbers the engine's life and names its keeper's file. `rule` selects the variables that jobs inherit; see
    `select_inherited`. `scratch` is the folder of the attempts' temporary directories; ``None`` is the machine's
    default.
    """

    def __init__(self, run: RunPaths, life: int, *, rule: InheritRule = "all", scratch: str | None = None) -> None:
        self._run = run
        self.root = str(run.root)
        """The run directory."""
        self._life = life
        self._rule = rule
        self._scratch = scratch
        self.units: Path | None = None
        """File of what attempts hold of the machine, if they share it; see `longshore.keeper.program.units`."""
        self._host = host_name()
        self._run_token = run_token(run)
        make_folders(run.keeper, below=run.root)
        # Records of earlier workflows have other job numbers, and all of their attempts are over.
        self._first_life = first_life_of_workflow(run)
        self._files = keeper_files(run.keeper, since=self._first_life)
        self._known_files = set(self._files)
        """Names of all files ever read."""
        self._reused = ReusedAttempts(run)
        self._keeper: KeeperProcess | None = None
        self._keeper_file: KeeperFile | None = None
        self._former_keepers: list[KeeperProcess] = []
        """Dead keepers whose guards may still wait for their orphans."""
        self._kill_at: dict[AttemptId, float] = {}
        """When an attempt that was asked to end is killed, on the monotonic clock."""
        self._orphans = OrphanedAttempts(lambda attempt: self._kill_processes({attempt}))
        self._drain_deadline = 0.0
        """Until when to wait for keepers that lost their engine, on the monotonic clock."""
        self._events: list[MemberEvent] = []
        self._never_started: list[AttemptId] = []
        self._lane_of: dict[AttemptId, str] = {}
        """Lane of every live attempt that was sent to one."""
        self._shared: list[Mapping[str, str]] = []
        self._environment_numbers: dict[int, int] = {}
        """Keeper's number of an environment, by the identity of its mapping."""
        self._environments_sent = 0
        """Number of environments sent to the keeper so far."""
        self.throttled_batches: set[str] = set()
        """Batches with members that were not started for a temporary reason."""
        self.throttle_reason = ""
        """The latest temporary reason."""
        self.why_undecided = ""
        """Why `find` last had no answer."""
        become_subreaper()

    def environment(self, shared: Mapping[str, str]) -> int:
        """Return the number by which attempts refer to an environment on top of the inherited one."""
        if id(shared) not in self._environment_numbers:
            # Kept alive, so that no other mapping can have its identity.
            self._shared.append(shared)
            self._environment_numbers[id(shared)] = len(self._shared)
        return self._environment_numbers[id(shared)]

    def start(self, tag: str, members: Sequence[MemberOrder], *, lane: str | None = None, slots: int = 0) -> None:
        """Order the keeper to start attempts, at once or as their lane has slots.

        Raises `OSError` when no keeper can be started.
        """
        for retry in (True, False):
            order: RunOrder = {"o": "run", "b": tag, "m": members}
            if lane is not None:
                order["l"], order["n"] = lane, max(0, slots - self._count_other_slots(lane))
            try:
                self._send(encode_command(order))
                assert self._keeper_file is not None
                attempts = [(member["j"], member["a"]) for member in members]
                self._keeper_file.sent |= dict.fromkeys(attempts, tag)
                self._reused.add(attempts)
                if lane is not None:
                    self._lane_of |= dict.fromkeys(attempts, lane)
            except BrokenPipeError:
                # The keeper was killed. Attempts it did not receive never start; `poll` settles the others.
                if not retry:
                    raise
                self._forget_keeper()
            else:
                return

    def _count_other_slots(self, lane: str) -> int:
        """Count a lane's slots taken by attempts of other keepers, which this keeper cannot know."""
        others = (file for file in self._files.values() if file is not self._keeper_file or self._keeper is None)
        return sum(self._lane_of.get(attempt) == lane for file in others for attempt in file.attempts())

    def poll(self) -> tuple[list[MemberEvent], list[AttemptId]]:
        """Read new records of all keepers; return events, and members lost with their keeper's commands."""
        self._kill_overdue()
        self._read_records()
        events, self._events = self._events, []
        never_started, self._never_started = self._never_started, []
        return events, never_started

    def _read_records(self) -> None:
        for name, file in list(self._files.items()):
            # Checked before the file is read: a keeper that ends in between has written its last record by then.
            is_alive = file.is_keeper_alive() or file is self._live_keeper_file()
            self._events.extend(self._reused.select_valid(file, self._events_of(file)))
            if file.is_damaged and self._keeper and file is self._keeper_file:
                # What is not known of its attempts is settled at its end, and another keeper starts further ones.
                self._retire_keeper()
            if not is_alive:
                self._events.extend(self._reused.select_valid(file, self._settle_dead_keeper(file)))
                never_started = sorted(file.sent)
                self._never_started.extend(never_started)
                self._forget_attempts(never_started)
                file.sent.clear()
                if not file.running:
                    self._former_keepers = [each for each in self._former_keepers if each.is_guard_running()]
                    remove_folder(file)
                    file.close()
                    del self._files[name]
        self._orphans.enforce_limits()

    def find(self, tags: Iterable[str]) -> dict[str, frozenset[AttemptId]] | None:
        """Find the members per tag that reached a keeper; ``None`` while that is undecided, for `why_undecided`."""
        wanted = set(tags)
        # Waited for once: an engine suspended elsewhere may keep its keeper busy without limit.
        self._drain_deadline = deadline = self._drain_deadline or processes.monotonic() + _DRAIN_LIMIT_S
        while True:
            by_name = keeper_files(self._run.keeper, since=self._first_life)
            # A keeper may have started since, of an engine that was wrongly thought dead.
            new = by_name.keys() - self._known_files
            self._files |= {name: KeeperFile(by_name[name].path) for name in sorted(new)}
            self._known_files |= new
            files = by_name.values()
            # Checked before the files are read, as in `_read_records`.
            live = {file.path for file in files if file.is_keeper_alive()}
            if self._keeper_file:
                live.discard(self._keeper_file.path)
            # Commands sent to our own keeper count as received; if it dies, `poll` reports them as never started.
            own = self._live_keeper_file()
            received: dict[str, set[AttemptId]] = {}
            for member, tag in own.sent.items() if own else ():
                received.setdefault(tag, set()).add(member)
            for file in files:
                for tag, members in received_members(file, wanted).items():
                    received.setdefault(tag, set()).update(members)
                file.close()
            if self._may_run_unrecorded([file for file in files if file.is_damaged], wanted, live):
                self.why_undecided = "a keeper's records are damaged, and attempts that they lack may still run"
                return None
            if all(file.closed for file in files if file.path in live):
                return {tag: frozenset(members) for tag, members in received.items() if members and tag in wanted}
            if processes.monotonic() > deadline:
                self.why_undecided = "a keeper of an earlier engine has not read all of its commands"
                return None
            processes.sleep(0.02)

    def _may_run_unrecorded(
        self, damaged: Collection[KeeperFile], wanted: AbstractSet[str], live: AbstractSet[Path]
    ) -> bool:
        """Whether an attempt of a wanted batch may run whose records are damaged."""
        if not damaged:
            return False
        lives = {life_of_tag(tag) for tag in wanted}
        doubtful = [file for file in damaged if file.life in lives]
        if not doubtful:
            return False
        if any(file.path in live for file in doubtful):
            return True
        known = {attempt for file in self._files.values() for attempt in file.attempts()}
        for file in keeper_files(self._run.keeper, since=self._first_life).values():
            known |= recorded_attempts(file)
        names = {f"{job}.{number}" for job, number in known}
        running = processes_with_variable(RUN_VARIABLE, self._run_token)
        return any(environment.get(JOB_VARIABLE, "") not in names for _, environment in running)

    def find_lost(self, tags: Iterable[str]) -> frozenset[str]:
        """Find batches whose start records a power failure or damage may have removed.

        Records are not synced, which would take longer than a short job. The last one says that a keeper read all
        commands: where it is left, so are those before it, unless they are damaged.
        """
        return frozenset(tag for tag in tags if (life := life_of_tag(tag)) and self._may_lack_records(life))

    def _may_lack_records(self, life: int) -> bool:
        files = [file for file in keeper_files(self._run.keeper).values() if file.life == life]
        for file in files:
            file.read()
            file.close()
        if any(file.is_damaged for file in files):
            return True
        try:
            if life == self._life or first_event(life_path(self._run.journal, life)).boot == boot_id():
                return False
        except FileNotFoundError:
            # A life writes its journal before it submits anything.
            return False
        except RunUnreadableError:
            # The loss of this life was accepted: when it began is not known.
            pass
        return not files or not all(file.closed for file in files)

    def end(self, attempts: Iterable[AttemptId], *, grace_s: float) -> int:
        """Ask attempts to end, and kill them when the grace is over; return their number."""
        # `poll` reports files that are unreadable for now; the commands sent are known anyway.
        with suppress(OSError):
            self._read_records()
        live_attempts = frozenset().union(*(file.attempts() for file in self._files.values()))
        wanted = (live_attempts & set(attempts)) - self._kill_at.keys()
        self._signal(wanted, signal.SIGTERM)
        for attempt in wanted:
            self._kill_at[attempt] = processes.monotonic() + grace_s
        return len(wanted)

    def kill_leftovers(self) -> list[int]:
        """Kill the leftover processes of the run's jobs; return the ids of those found."""
        self._await_inner_runs()
        killed: dict[int, None] = {}
        for _ in range(_KILL_ROUNDS):
            pids = {pid for pid, _ in processes_with_variable(RUN_VARIABLE, self._run_token)} - {processes.getpid()}
            self._live_keeper_file()
            for each in filter(None, (self._keeper, *self._former_keepers)):
                # A process without its environment is still found: when orphaned, it becomes the keeper's child.
                pids.update(pid for pid in each.descendants() if process_name(pid) != "rm")
            for pid in pids:
                signal_process(pid, signal.SIGKILL)
            killed |= dict.fromkeys(pids)
            if not pids:
                break
            processes.sleep(0.02)
        return list(killed)

    def _await_inner_runs(self) -> None:
        """Wait a while for the engines of runs that jobs submitted: they end their own jobs, and say so."""
        deadline = processes.monotonic() + _INNER_LIMIT_S
        while processes.monotonic() < deadline:
            of_this_run = processes_with_variable(RUN_FOLDER_VARIABLE, self.root)
            if not any(OUTER_VARIABLE in environment for _, environment in of_this_run):
                break
            processes.sleep(0.1)

    def identifying_variables(self, job: int, attempt: int) -> dict[str, str]:
        """Return the environment variables that identify an attempt's processes."""
        return {RUN_VARIABLE: self._run_token, JOB_VARIABLE: attempt_name(job, attempt)}

    def wait(self, timeout_s: float) -> None:
        """Wait until the keeper has written something, or the timeout."""
        if self._events or self._never_started:
            return
        next_kill_s = min(self._kill_at.values(), default=float("inf")) - processes.monotonic()
        timeout_s = max(0.0, min(timeout_s, next_kill_s, self._orphans.next_check_s()))
        if self._keeper is None:
            processes.sleep(timeout_s)
        elif not self._keeper.wait(timeout_s):
            # The keeper died; `poll` handles its attempts.
            self._forget_keeper()

    def close(self) -> None:
        """Disconnect from the keeper, which waits for its running attempts and ends."""
        if self._keeper:
            self._retire_keeper(wait_s=0.0 if self._keeper.file.attempts() else _END_LIMIT_S)
        for each in self._former_keepers:
            each.release()
        self._former_keepers.clear()

    def _send(self, order: bytes) -> None:
        receiver = self._keeper or self._start_keeper()
        for number, shared in enumerate(self._shared[self._environments_sent :], self._environments_sent + 1):
            receiver.write(encode_command({"o": "env", "id": number, "on": 0, "env": shared}))
            self._environments_sent = number
        receiver.write(order)

    def _start_keeper(self) -> KeeperProcess:
        started = KeeperProcess(self._run, self._life, scratch=self._scratch, units=self.units)
        self._keeper, self._keeper_file = started, started.file
        name = started.file.path.name
        self._files[name] = started.file
        self._known_files.add(name)
        inherited, _ = select_inherited(os.environ, self._rule)
        environment = {name: value for name, value in os.environ.items() if name in inherited}
        self._environments_sent = 0
        try:
            started.write(encode_command({"o": "env", "id": 0, "env": environment}))
        except BrokenPipeError:
            raise
        except OSError:
            # No job may start without its environment.
            self._retire_keeper()
            raise
        return started

    def _live_keeper_file(self) -> KeeperFile | None:
        if self._keeper and not self._keeper.is_running():
            self._forget_keeper()
        return self._keeper_file if self._keeper else None

    def _retire_keeper(self, wait_s: float = 0.0) -> None:
        """Disconnect from the keeper, which waits for its running attempts and ends."""
        assert self._keeper is not None
        self._keeper.disconnect(wait_s=wait_s)
        self._former_keepers.append(self._keeper)
        self._keeper = None

    def _forget_keeper(self) -> None:
        """Drop a keeper that died; its guard stays for its orphans."""
        assert self._keeper is not None
        self._keeper.end()
        self._former_keepers.append(self._keeper)
        self._keeper = None

    def _events_of(self, file: KeeperFile) -> Iterator[MemberEvent]:
        cancelled: set[AttemptId] = set()
        for record in file.read():
            if isinstance(record, StartRecord):
                yield start_event(record, host=self._host)
            elif isinstance(record, NeverStartedRecord):
                # `find` reports this for keepers of earlier lives.
                if file.life == self._life:
                    self._never_started.extend(record.m)
                    self._forget_attempts(record.m)
            elif isinstance(record, ExitRecord) and record.is_temporary:
                self._lane_of.pop((record.j, record.a), None)
                self.throttle_reason = record.err or ""
            elif isinstance(record, ExitRecord):
                self._lane_of.pop((record.j, record.a), None)
                if self._kill_at.pop((record.j, record.a), None) is not None:
                    cancelled.add((record.j, record.a))
                yield end_event(record, host=self._host)
        self.throttled_batches |= file.throttled
        file.throttled = set()
        if cancelled:
            # A process the job started in a session of its own is not in its group, but must end with it.
            self._kill_processes(cancelled)

    def _settle_dead_keeper(self, file: KeeperFile) -> Iterator[MemberEvent]:
        """Determine the outcome of the attempts of a dead keeper."""
        for attempt in sorted(file.reaping.keys() - file.running.keys()):
            # The record of its start is damaged, and that of its exit is intact.
            self._kill_processes({attempt} - self._reused.of_older_life(file))
            yield exit_event(file.remove_exit(attempt), host=self._host)
            self._forget_attempts([attempt])
        # The keeper may have started some just before it died, without recording it.
        doubtful, why = file.unstarted, "its keeper was killed while starting it"
        if file.is_damaged:
            doubtful, why = file.unstarted | file.sent.keys(), "the records of its keeper are damaged"
        if doubtful and file.is_of_this_boot():
            # Processes are found by the numbers of their attempts.
            self._kill_processes(doubtful - self._reused.of_older_life(file))
        for job, number in sorted(doubtful):
            file.sent.pop((job, number), None)
            yield Lost(j=job, a=number, why=why)
        self._forget_attempts(doubtful)
        file.unstarted.clear()
        for attempt, start in list(file.running.items()):
            outcome = self._orphans.outcome(start, file)
            if outcome is not None:
                del file.running[attempt]
                self._forget_attempts([attempt])
                remove_folder(file, attempt)
                yield outcome

    def _kill_processes(self, attempts: Collection[AttemptId]) -> None:
        """Kill every process of these attempts, identified by environment variables."""
        names = {f"{job}.{number}" for job, number in attempts}
        for pid, environment in processes_with_variable(RUN_VARIABLE, self._run_token):
            if environment.get(JOB_VARIABLE) in names:
                signal_process(pid, signal.SIGKILL)

    def _forget_attempts(self, attempts: Iterable[AttemptId]) -> None:
        """Cancel the planned kill of attempts that are over."""
        for attempt in attempts:
            self._kill_at.pop(attempt, None)
            self._lane_of.pop(attempt, None)

    def _kill_overdue(self) -> None:
        now = processes.monotonic()
        overdue = {attempt for attempt, due in self._kill_at.items() if due <= now}
        if overdue:
            self._signal(overdue, signal.SIGKILL)
            for attempt in overdue:
                # A process in uninterruptible sleep does not die at once: it is signalled again after a second.
                self._kill_at[attempt] = now + 1.0

    def _signal(self, attempts: AbstractSet[AttemptId], number: signal.Signals) -> None:
        own = self._live_keeper_file()
        if own and attempts:
            try:
                self._send(encode_command({"o": "kill", "m": sorted(attempts), "sig": int(number)}))
            except BrokenPipeError:
                # The keeper died just now; its jobs are ended like those of any dead keeper.
                self._forget_keeper()
                own = None
        for file in self._files.values():
            if file is own:
                continue
            for attempt in attempts & file.running.keys():
                start = file.running[attempt]
                if is_same_process(start.pid, start.up):
                    signal_group(start.pid, number)
