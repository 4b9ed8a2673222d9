"""Talks to keepers: starts one per life of the engine, sends it orders, and reads what all keepers of the run wrote."""

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
from longshore.engine.keeper.kernel import orphans_come_home
from longshore.engine.keeper.protocol import MemberOrder, RunOrder
from longshore.engine.rundir.journal import path_of
from longshore.model.run.event import Lost
from longshore.services.local.end_records import EndRecord, Never, StartRecord, ended, started
from longshore.services.local.keeper_program import copy_whole, encoded, mark_of, temporary_prefix
from longshore.services.local.keeper_records import Attempt, KeeperFile, keeper_files, taken_of
from longshore.services.local.orphaned_attempts import Orphans, forget_folder
from longshore.services.local.signals import signal_group, signal_process
from longshore.sites.inherited_environment import InheritRule, select_inherited
from longshore.world.files.presence import is_surely_local
from longshore.world.host import descendants, host_name, is_same_process, process_name, processes_with

_RUN_MARK: Final = "LONGSHORE_JOB_RUN_MARK"
_JOB_MARK: Final = "LONGSHORE_JOB_INDEX"
"""Variables by which every process of a run, and of an attempt, is known again."""
_SWEEPS: Final = 20
"""How often processes that are being made are looked for again."""
_DRAIN_S: Final = 20.0
"""How long a keeper that lost its engine may take to read the orders that were already sent."""
_BEGIN_S: Final = 30.0
"""How long a keeper may take to begin."""
_END_S: Final = 2.0
"""How long a keeper may take to end when there is nothing left for it to do."""


class LocalClient:
    """The keepers of one run, as the engine of one life sees them.

    Parameters
    ----------
    run
        The run directory.
    life
        Number of the engine's life; a keeper's file is named by it.
    rule
        Which variables of the engine's environment jobs inherit; see `select_inherited`.
    scratch
        Where attempts get their temporary directories; ``None`` is where this machine has such.
    """

    def __init__(self, run: RunPaths, life: int, *, rule: InheritRule = "all", scratch: str | None = None) -> None:
        self._run = run
        self._life = life
        self._rule = rule
        self._scratch = scratch
        self._host = host_name()
        self._mark = mark_of(run)
        run.keeper.mkdir(exist_ok=True)
        self._files = keeper_files(run.keeper)
        self._seen = set(self._files)
        """Names of the files that were looked into at any time."""
        self._keeper: subprocess.Popen[bytes] | None = None
        self._own: KeeperFile | None = None
        self._own_path: Path | None = None
        self._doomed: dict[Attempt, float] = {}
        """When an attempt that was asked to end is killed, on the monotonic clock."""
        self._orphans = Orphans(lambda attempt: self._kill_marked({attempt}))
        self._drained_by = 0.0
        """Until when keepers that lost their engine are waited for, on the monotonic clock."""
        self._events: list[MemberEvent] = []
        self._never: list[Attempt] = []
        self._lane_of: dict[Attempt, str] = {}
        """Lane of every attempt that was sent into one and is not over."""
        self._shared: list[Mapping[str, str]] = []
        self._number_of: dict[int, int] = {}
        """Number by which a keeper knows an environment, per identity of its mapping."""
        self._told = 0
        """How many of them the keeper was told."""
        self.again: set[str] = set()
        """Batches of which members were not started after all, for a reason that will pass."""
        self.busy = ""
        """That reason."""
        orphans_come_home()

    def environment(self, shared: Mapping[str, str]) -> int:
        """The number under which attempts may refer to an environment on top of the inherited one."""
        if id(shared) not in self._number_of:
            # Kept, so that nothing else can have its identity.
            self._shared.append(shared)
            self._number_of[id(shared)] = len(self._shared)
        return self._number_of[id(shared)]

    def start(self, tag: str, members: Sequence[MemberOrder], *, lane: str | None = None, slots: int = 0) -> None:
        """Order a keeper to start attempts, at once or as their lane has slots.

        Raises
        ------
        OSError
            No keeper can be started.
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
                # It was killed. What it did not get it will never start; what it got is settled by `poll`.
                if not again:
                    raise
                self._forget_keeper()
            else:
                return

    def _count_elsewhere(self, lane: str) -> int:
        """How many slots of a lane are taken by what another keeper started, which this one cannot know of."""
        others = (file for file in self._files.values() if file is not self._own or self._keeper is None)
        return sum(self._lane_of.get(attempt) == lane for file in others for attempt in file.attempts())

    def poll(self) -> tuple[list[MemberEvent], list[Attempt]]:
        """All that is new in the files of all keepers, and the members that died with their keeper's orders."""
        self._kill_doomed()
        self._collect()
        events, self._events = self._events, []
        never, self._never = self._never, []
        return events, never

    def _collect(self) -> None:
        for name, file in list(self._files.items()):
            # Asked before the file is read: one that ends in between has written its last record by then.
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
        """Members per tag that reached a keeper; ``None`` while one that lost its engine still reads its orders."""
        wanted = set(tags)
        # Waited for once: an engine that is suspended elsewhere may hold a keeper for as long as it likes.
        self._drained_by = deadline = self._drained_by or time.monotonic() + _DRAIN_S
        while True:
            found = keeper_files(self._run.keeper)
            # One may have begun since: its engine was thought dead, and was not.
            self._files |= {name: KeeperFile(file.path) for name, file in found.items() if name not in self._seen}
            self._seen |= found.keys()
            files = found.values()
            # Asked before the files are read, as in `_collect`.
            reading = {file.path for file in files if file.keeper_lives()} - {self._own_path}
            # What this engine sent to its own keeper is as good as taken; should that keeper die, `poll` says never.
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
        """Ask attempts to end, and kill them when the grace is over; return how many there are."""
        # What cannot be read for now, `poll` complains about; what was sent is known all the same.
        with suppress(OSError):
            self._collect()
        there = frozenset().union(*(file.attempts() for file in self._files.values()))
        wanted = (there & set(attempts)) - self._doomed.keys()
        self._signal(wanted, signal.SIGTERM)
        for attempt in wanted:
            self._doomed[attempt] = time.monotonic() + grace_s
        return len(wanted)

    def sweep(self) -> list[int]:
        """Kill what jobs of this run left behind, wherever it went; return the numbers of what was found."""
        ended: dict[int, None] = {}
        for _ in range(_SWEEPS):
            found = {pid for pid, _ in processes_with(_RUN_MARK, self._mark)} - {os.getpid()}
            if self._keeper and self._own_and_alive():
                # What has dropped its environment still is the keeper's, as whose child it ends up when it is orphaned.
                found.update(pid for pid in descendants(self._keeper.pid) if process_name(pid) != "rm")
            for pid in found:
                signal_process(pid, signal.SIGKILL)
            ended |= dict.fromkeys(found)
            if not found:
                break
            time.sleep(0.02)
        return list(ended)

    def marks(self, job: int, attempt: int) -> dict[str, str]:
        """The variables by which the processes of an attempt are known again."""
        return {_RUN_MARK: self._mark, _JOB_MARK: f"{job}.{attempt}"}

    def wait(self, timeout_s: float) -> None:
        """Return when the keeper has written something, or after a time."""
        if self._events or self._never:
            return
        soonest = min(self._doomed.values(), default=float("inf")) - time.monotonic()
        timeout_s = max(0.0, min(timeout_s, soonest, self._orphans.due()))
        if self._keeper is None or self._keeper.stdout is None:
            time.sleep(timeout_s)
            return
        pipe = self._keeper.stdout.fileno()
        if select.select([pipe], [], [], timeout_s)[0] and not os.read(pipe, 65536):
            # The keeper died; `poll` sees to what it ran.
            self._forget_keeper()

    def close(self) -> None:
        """Let the keeper go: it waits for what runs, and ends."""
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
            # Sent to one that ends at once, orders would come back as never started, for ever.
            self._forget_keeper()
            Path(tmp).rmdir()
            raise OSError(f"it ended before it began; its words are in '{self._run.engine_log}'")
        kept, _ = select_inherited(os.environ, self._rule)
        environment = {name: value for name, value in os.environ.items() if name in kept}
        self._told = 0
        self._write(encoded({"o": "env", "id": 0, "env": environment}) + b"\n")

    def _successor(self) -> tuple[str, str]:
        """The file by which a keeper knows that another engine has begun, and whether it lies near."""
        where = "near" if is_surely_local(self._run.root) else "far"
        return str(path_of(self._run.journal, self._life + 1)), where

    def _own_and_alive(self) -> KeeperFile | None:
        if self._keeper and self._keeper.poll() is not None:
            self._forget_keeper()
        return self._own if self._keeper else None

    def _forget_keeper(self) -> None:
        """Be done with a keeper that died, or does not begin."""
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
            # It goes on without us, as it should; `Popen` would complain about that.
            self._keeper.returncode = 0
        self._keeper = None

    def _events_of(self, file: KeeperFile) -> Iterator[MemberEvent]:
        cancelled: set[Attempt] = set()
        for record in file.read():
            if isinstance(record, StartRecord):
                yield started(record, host=self._host)
            elif isinstance(record, Never):
                # Of an earlier life's keeper, `find` says it.
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
            # What a job sent away in a session of its own is not in its group, and ends with it all the same.
            self._kill_marked(cancelled)

    def _settle(self, file: KeeperFile) -> Iterator[MemberEvent]:
        """What became of the attempts of a keeper that is gone."""
        # They may have been started in the last moment of the keeper, before that could be written down.
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
        """Kill every process of these attempts, known by what their environment says."""
        marks = {f"{job}.{number}" for job, number in attempts}
        for pid, environment in processes_with(_RUN_MARK, self._mark):
            if environment.get(_JOB_MARK) in marks:
                signal_process(pid, signal.SIGKILL)

    def _spare(self, attempts: Iterable[Attempt]) -> None:
        """Forget the end that was planned for attempts that are over."""
        for attempt in attempts:
            self._doomed.pop(attempt, None)
            self._lane_of.pop(attempt, None)

    def _kill_doomed(self) -> None:
        now = time.monotonic()
        overdue = {attempt for attempt, due in self._doomed.items() if due <= now}
        if overdue:
            self._signal(overdue, signal.SIGKILL)
            for attempt in overdue:
                # A process in the kernel's hands does not die at once: asked again in a second.
                self._doomed[attempt] = now + 1.0

    def _signal(self, attempts: AbstractSet[Attempt], number: signal.Signals) -> None:
        ours = self._own_and_alive()
        if ours and attempts:
            try:
                self._send(encoded({"o": "kill", "m": sorted(attempts), "sig": int(number)}) + b"\n")
            except BrokenPipeError:
                # It died this very moment; its jobs are ended as those of any other keeper that is gone.
                self._forget_keeper()
                ours = None
        for file in self._files.values():
            if file is ours:
                continue
            for attempt in attempts & file.running.keys():
                start = file.running[attempt]
                if is_same_process(start.pid, start.up):
                    signal_group(start.pid, number)
