"""Client of the keepers: starts one per life of the engine, sends it commands, and reads the records of all."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from longshore.contract.batch import MemberEvent
from longshore.contract.context import RunPaths
from longshore.engine import keeper
from longshore.engine.keeper.kernel import become_subreaper
from longshore.engine.keeper.protocol import MemberOrder, RunOrder
from longshore.engine.rundir.journal import life_path
from longshore.model.run.event import Lost
from longshore.services.local.keeper_file import Attempt, KeeperFile, keeper_files, taken_of
from longshore.services.local.keeper_program import copy_whole, encoded, run_token, temporary_prefix
from longshore.services.local.keeper_records import EndRecord, Never, StartRecord, ended, started
from longshore.services.local.orphaned_attempts import Orphans, forget_folder
from longshore.services.local.signals import signal_group, signal_process
from longshore.sites.inherited_environment import InheritRule, select_inherited
from longshore.world.files.presence import is_local_file_system
from longshore.world.host import descendants, host_name, is_same_process, process_name, processes_with_variable

_RUN_VARIABLE: Final = "LONGSHORE_JOB_RUN_MARK"
_JOB_VARIABLE: Final = "LONGSHORE_JOB_INDEX"
"""Environment variables that identify every process of a run and of an attempt."""
_SWEEPS: Final = 20
"""Maximum number of repeated searches, because processes may start others meanwhile."""
_DRAIN_S: Final = 20.0
"""Seconds a keeper that lost its engine may take to read commands already sent."""
_BEGIN_S: Final = 30.0
"""Seconds a keeper may take to start."""
_END_S: Final = 2.0
"""Seconds a keeper may take to end when it has nothing left to do."""


class LocalClient:
    """The keepers of one run, for the engine of one life.

    `life` numbers the engine's life and names its keeper's file. `rule` selects the variables that jobs inherit; see
    `select_inherited`. `scratch` is the folder of the attempts' temporary directories; ``None`` is the machine's
    default.
    """

    def __init__(self, run: RunPaths, life: int, *, rule: InheritRule = "all", scratch: str | None = None) -> None:
        self._run = run
        self._life = life
        self._rule = rule
        self._scratch = scratch
        self._host = host_name()
        self._run_token = run_token(run)
        run.keeper.mkdir(exist_ok=True)
        self._files = keeper_files(run.keeper)
        self._seen = set(self._files)
        """Names of all files ever read."""
        self._keeper: subprocess.Popen[bytes] | None = None
        self._own: KeeperFile | None = None
        self._own_path: Path | None = None
        self._doomed: dict[Attempt, float] = {}
        """When an attempt that was asked to end is killed, on the monotonic clock."""
        self._orphans = Orphans(lambda attempt: self._kill_marked({attempt}))
        self._drained_by = 0.0
        """Until when to wait for keepers that lost their engine, on the monotonic clock."""
        self._events: list[MemberEvent] = []
        self._never: list[Attempt] = []
        self._lane_of: dict[Attempt, str] = {}
        """Lane of every live attempt that was sent to one."""
        self._shared: list[Mapping[str, str]] = []
        self._number_of: dict[int, int] = {}
        """Keeper's number of an environment, by the identity of its mapping."""
        self._told = 0
        """Number of environments sent to the keeper so far."""
        self.again: set[str] = set()
        """Batches with members that were not started for a temporary reason."""
        self.busy = ""
        """The latest temporary reason."""
        become_subreaper()

    def environment(self, shared: Mapping[str, str]) -> int:
        """Return the number by which attempts refer to an environment on top of the inherited one."""
        if id(shared) not in self._number_of:
            # Kept alive, so that no other mapping can have its identity.
            self._shared.append(shared)
            self._number_of[id(shared)] = len(self._shared)
        return self._number_of[id(shared)]

    def start(self, tag: str, members: Sequence[MemberOrder], *, lane: str | None = None, slots: int = 0) -> None:
        """Order the keeper to start attempts, at once or as their lane has slots.

        Raises `OSError` when no keeper can be started.
        """
        for again in (True, False):
            order: RunOrder = {"o": "run", "b": tag, "m": members}
            if lane is not None:
                order["l"], order["n"] = lane, max(0, slots - self._count_elsewhere(lane))
            try:
                self._send(encoded(order) + b"\n")
                assert self._own is not None
                attempts = [(member["j"], member["a"]) for member in members]
                self._own.sent |= dict.fromkeys(attempts, tag)
                if lane is not None:
                    self._lane_of |= dict.fromkeys(attempts, lane)
            except BrokenPipeError:
                # The keeper was killed. Attempts it did not receive never start; `poll` settles the others.
                if not again:
                    raise
                self._forget_keeper()
            else:
                return

    def _count_elsewhere(self, lane: str) -> int:
        """Count a lane's slots taken by attempts of other keepers, which this keeper cannot know."""
        others = (file for file in self._files.values() if file is not self._own or self._keeper is None)
        return sum(self._lane_of.get(attempt) == lane for file in others for attempt in file.attempts())

    def poll(self) -> tuple[list[MemberEvent], list[Attempt]]:
        """Read new records of all keepers; return events, and members lost with their keeper's commands."""
        self._kill_doomed()
        self._collect()
        events, self._events = self._events, []
        never, self._never = self._never, []
        return events, never

    def _collect(self) -> None:
        for name, file in list(self._files.items()):
            # Checked before the file is read: a keeper that ends in between has written its last record by then.
            lives = file.keeper_lives() or file is self._own_and_alive()
            self._events.extend(self._events_of(file))
            if not lives:
                self._events.extend(self._settle(file))
                never = sorted(file.sent)
                self._never.extend(never)
                self._spare(never)
                file.sent.clear()
                if not file.running:
                    forget_folder(file)
                    file.close()
                    del self._files[name]
        self._orphans.look()

    def find(self, tags: Iterable[str]) -> dict[str, frozenset[Attempt]] | None:
        """Find the members per tag that reached a keeper; ``None`` while an orphaned keeper still reads commands."""
        wanted = set(tags)
        # Waited for once: an engine suspended elsewhere may keep its keeper busy without limit.
        self._drained_by = deadline = self._drained_by or time.monotonic() + _DRAIN_S
        while True:
            found = keeper_files(self._run.keeper)
            # A keeper may have started since, of an engine that was wrongly thought dead.
            self._files |= {name: KeeperFile(file.path) for name, file in found.items() if name not in self._seen}
            self._seen |= found.keys()
            files = found.values()
            # Checked before the files are read, as in `_collect`.
            reading = {file.path for file in files if file.keeper_lives()} - {self._own_path}
            # Commands sent to our own keeper count as received; if it dies, `poll` reports them as never started.
            own = self._own_and_alive()
            taken: dict[str, set[Attempt]] = {}
            for member, tag in own.sent.items() if own else ():
                taken.setdefault(tag, set()).add(member)
            for file in files:
                for tag, members in taken_of(file, wanted).items():
                    taken.setdefault(tag, set()).update(members)
                file.close()
            if all(file.closed for file in files if file.path in reading):
                return {tag: frozenset(members) for tag, members in taken.items() if members and tag in wanted}
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)

    def end(self, attempts: Iterable[Attempt], *, grace_s: float) -> int:
        """Ask attempts to end, and kill them when the grace is over; return their number."""
        # `poll` reports files that are unreadable for now; the commands sent are known anyway.
        with suppress(OSError):
            self._collect()
        there = frozenset().union(*(file.attempts() for file in self._files.values()))
        wanted = (there & set(attempts)) - self._doomed.keys()
        self._signal(wanted, signal.SIGTERM)
        for attempt in wanted:
            self._doomed[attempt] = time.monotonic() + grace_s
        return len(wanted)

    def sweep(self) -> list[int]:
        """Kill the leftover processes of the run's jobs; return the ids of those found."""
        ended: dict[int, None] = {}
        for _ in range(_SWEEPS):
            found = {pid for pid, _ in processes_with_variable(_RUN_VARIABLE, self._run_token)} - {os.getpid()}
            if self._keeper and self._own_and_alive():
                # A process without its environment is still found: when orphaned, it becomes the keeper's child.
                found.update(pid for pid in descendants(self._keeper.pid) if process_name(pid) != "rm")
            for pid in found:
                signal_process(pid, signal.SIGKILL)
            ended |= dict.fromkeys(found)
            if not found:
                break
            time.sleep(0.02)
        return list(ended)

    def marks(self, job: int, attempt: int) -> dict[str, str]:
        """Return the environment variables that identify an attempt's processes."""
        return {_RUN_VARIABLE: self._run_token, _JOB_VARIABLE: f"{job}.{attempt}"}

    def wait(self, timeout_s: float) -> None:
        """Wait until the keeper has written something, or the timeout."""
        if self._events or self._never:
            return
        soonest = min(self._doomed.values(), default=float("inf")) - time.monotonic()
        timeout_s = max(0.0, min(timeout_s, soonest, self._orphans.due()))
        if self._keeper is None or self._keeper.stdout is None:
            time.sleep(timeout_s)
            return
        pipe = self._keeper.stdout.fileno()
        if select.select([pipe], [], [], timeout_s)[0] and not os.read(pipe, 65536):
            # The keeper died; `poll` handles its attempts.
            self._forget_keeper()

    def close(self) -> None:
        """Disconnect from the keeper, which waits for its running attempts and ends."""
        if self._keeper:
            assert self._own is not None
            self._let_go(wait_s=0.0 if self._own.attempts() else _END_S)

    def _send(self, order: bytes) -> None:
        if self._keeper is None:
            self._start_keeper()
        self._tell_environments()
        self._write(order)

    def _write(self, order: bytes) -> None:
        assert self._keeper is not None
        assert self._keeper.stdin is not None
        unsent = memoryview(order)
        while unsent:
            unsent = unsent[os.write(self._keeper.stdin.fileno(), unsent) :]

    def _tell_environments(self) -> None:
        for number, shared in enumerate(self._shared[self._told :], self._told + 1):
            self._write(encoded({"o": "env", "id": number, "on": 0, "env": shared}) + b"\n")
            self._told = number

    def _start_keeper(self) -> None:
        program = self._run.keeper / keeper.PROGRAM
        for name in keeper.FILES:
            copy_whole(keeper.FOLDER / name, self._run.keeper / name)
        number = 1
        while (path := self._run.keeper / f"{self._life:04}.{number}.jsonl").exists():
            number += 1
        tmp = tempfile.mkdtemp(prefix=f"{temporary_prefix()}{self._run.root.name[:40]}-", dir=self._scratch)
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(program), str(path), tmp, *self._successor()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError:
            Path(tmp).rmdir()
            raise
        self._own = self._files[path.name] = KeeperFile(path)
        self._seen.add(path.name)
        self._own_path = path
        assert self._keeper.stdout is not None
        pipe = self._keeper.stdout.fileno()
        if not (select.select([pipe], [], [], _BEGIN_S)[0] and os.read(pipe, 65536)):
            # A keeper that ends at once would report commands as never started, for ever.
            self._forget_keeper()
            Path(tmp).rmdir()
            raise OSError(f"it ended before it began; its words are in '{self._run.engine_log}'")
        kept, _ = select_inherited(os.environ, self._rule)
        environment = {name: value for name, value in os.environ.items() if name in kept}
        self._told = 0
        self._write(encoded({"o": "env", "id": 0, "env": environment}) + b"\n")

    def _successor(self) -> tuple[str, str]:
        """Return the file that tells a keeper of a newer engine, and whether it is on a local disk."""
        where = "near" if is_local_file_system(self._run.root) else "far"
        return str(life_path(self._run.journal, self._life + 1)), where

    def _own_and_alive(self) -> KeeperFile | None:
        if self._keeper and self._keeper.poll() is not None:
            self._forget_keeper()
        return self._own if self._keeper else None

    def _forget_keeper(self) -> None:
        """Drop a keeper that died or does not start."""
        assert self._keeper is not None
        self._keeper.kill()
        self._let_go(wait_s=None)

    def _let_go(self, *, wait_s: float | None) -> None:
        assert self._keeper is not None
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe:
                pipe.close()
        try:
            self._keeper.wait(wait_s)
        except subprocess.TimeoutExpired:
            # The keeper is meant to go on without us; without this `Popen` would warn of it.
            self._keeper.returncode = 0
        self._keeper = None

    def _events_of(self, file: KeeperFile) -> Iterator[MemberEvent]:
        cancelled: set[Attempt] = set()
        for record in file.read():
            if isinstance(record, StartRecord):
                yield started(record, host=self._host)
            elif isinstance(record, Never):
                # `find` reports this for keepers of earlier lives.
                if file is self._own:
                    self._never.extend(record.m)
                    self._spare(record.m)
            elif isinstance(record, EndRecord) and record.passing:
                self._lane_of.pop((record.j, record.a), None)
                self.busy = record.err or ""
            elif isinstance(record, EndRecord):
                self._lane_of.pop((record.j, record.a), None)
                if self._doomed.pop((record.j, record.a), None) is not None:
                    cancelled.add((record.j, record.a))
                yield ended(record, host=self._host)
        self.again |= file.given_up
        file.given_up = set()
        if cancelled:
            # A process the job started in a session of its own is not in its group, but must end with it.
            self._kill_marked(cancelled)

    def _settle(self, file: KeeperFile) -> Iterator[MemberEvent]:
        """Determine the outcome of the attempts of a dead keeper."""
        # The keeper may have started some just before it died, without recording it.
        if file.unstarted and file.is_of_this_boot():
            self._kill_marked(file.unstarted)
        for job, number in sorted(file.unstarted):
            yield Lost(j=job, a=number, why="its keeper was killed while starting it")
        self._spare(file.unstarted)
        file.unstarted.clear()
        for attempt, start in list(file.running.items()):
            outcome = self._orphans.outcome(start, file)
            if outcome is not None:
                del file.running[attempt]
                self._spare([attempt])
                forget_folder(file, attempt)
                yield outcome

    def _kill_marked(self, attempts: Collection[Attempt]) -> None:
        """Kill every process of these attempts, identified by environment variables."""
        marks = {f"{job}.{number}" for job, number in attempts}
        for pid, environment in processes_with_variable(_RUN_VARIABLE, self._run_token):
            if environment.get(_JOB_VARIABLE) in marks:
                signal_process(pid, signal.SIGKILL)

    def _spare(self, attempts: Iterable[Attempt]) -> None:
        """Cancel the planned kill of attempts that are over."""
        for attempt in attempts:
            self._doomed.pop(attempt, None)
            self._lane_of.pop(attempt, None)

    def _kill_doomed(self) -> None:
        now = time.monotonic()
        overdue = {attempt for attempt, due in self._doomed.items() if due <= now}
        if overdue:
            self._signal(overdue, signal.SIGKILL)
            for attempt in overdue:
                # A process in uninterruptible sleep does not die at once: it is signalled again after a second.
                self._doomed[attempt] = now + 1.0

    def _signal(self, attempts: AbstractSet[Attempt], number: signal.Signals) -> None:
        ours = self._own_and_alive()
        if ours and attempts:
            try:
                self._send(encoded({"o": "kill", "m": sorted(attempts), "sig": int(number)}) + b"\n")
            except BrokenPipeError:
                # The keeper died just now; its jobs are ended like those of any dead keeper.
                self._forget_keeper()
                ours = None
        for file in self._files.values():
            if file is ours:
                continue
            for attempt in attempts & file.running.keys():
                start = file.running[attempt]
                if is_same_process(start.pid, start.up):
                    signal_group(start.pid, number)
