"""Talks to keepers: starts one per life of the engine, sends it orders, and reads what all keepers of the run wrote."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.contract.executor import MemberEvent
from longshore.engine import keeper as keeper_program
from longshore.model.event import Lost
from longshore.services.local.parse import (
    Closed,
    EndRecord,
    Got,
    KeeperBegan,
    Record,
    StartRecord,
    decode_record,
    ended,
    ended_with_status,
    started,
)
from longshore.world.host import boot_id, host_name, is_same_process, processes_with

_encode = msgspec.json.Encoder().encode
_Attempt = tuple[int, int]
RUN_DIR_VARIABLE: Final = "LONGSHORE_JOB_RUN_DIR"
_DRAIN_S: Final = 20.0
"""How long a keeper that lost its engine may take to read the orders that were already sent."""


class KeeperFile:
    """What one keeper wrote, read as it grows.

    Parameters
    ----------
    path
        Its records.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self.began: KeeperBegan | None = None
        self.taken: dict[str, frozenset[_Attempt]] = {}
        """Members per tag of every batch it got."""
        self.sent: set[_Attempt] = set()
        """Members that this engine ordered it to start, and that it has not yet got."""
        self.unstarted: set[_Attempt] = set()
        self.running: dict[_Attempt, StartRecord] = {}
        self.closed = False

    def read(self) -> list[Record]:
        """Records that are new since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        records = [decode_record(line) for line in whole.splitlines()]
        for record in records:
            self._note(record)
        return records

    def _note(self, record: Record) -> None:
        match record:
            case Got():
                members = frozenset(record.m)
                self.taken[record.b] = members
                self.sent -= members
                self.unstarted |= members
            case StartRecord():
                self.unstarted.discard((record.j, record.a))
                self.running[record.j, record.a] = record
            case EndRecord():
                self.unstarted.discard((record.j, record.a))
                self.running.pop((record.j, record.a), None)
            case KeeperBegan():
                self.began = record
            case Closed():
                self.closed = True

    def keeper_lives(self) -> bool:
        """Whether the keeper still holds the lock on its file."""
        try:
            file = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False


class LocalClient:
    """The keepers of one run, as the engine of one life sees them.

    Parameters
    ----------
    run
        The run directory.
    life
        Number of the engine's life; a keeper's file is named by it.
    """

    def __init__(self, run: RunPaths, life: int) -> None:
        self._run = run
        self._life = life
        self._host = host_name()
        run.keeper.mkdir(exist_ok=True)
        self._files = _keeper_files(run.keeper)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._own: KeeperFile | None = None
        self._own_path: Path | None = None
        self._tmp: Path | None = None
        self._doomed: dict[_Attempt, float] = {}
        """When an attempt that was asked to end is killed, on the monotonic clock."""
        keeper_program.orphans_come_home()

    def tmp_of(self, job: int, attempt: int) -> str:
        """Path of an attempt's temporary directory."""
        if self._tmp is None:
            self._tmp = _private_folder(f"longshore-{os.getuid()}-{self._run.root.name[:40]}-{os.getpid()}")
        return str(self._tmp / f"{job}.{attempt}")

    def start(self, tag: str, members: list[dict[str, Any]]) -> None:
        """Order a keeper to start attempts.

        Raises
        ------
        OSError
            No keeper can be started.
        """
        for again in (True, False):
            order = _encode({"o": "run", "b": tag, "m": members}) + b"\n"
            try:
                self._send(order)
                assert self._own is not None
                self._own.sent |= {(member["j"], member["a"]) for member in members}
            except BrokenPipeError:
                # It was killed. What it did not get it will never start; what it got is settled by `poll`.
                if not again:
                    raise
                self._forget_keeper()
            else:
                return

    def poll(self) -> tuple[list[MemberEvent], list[_Attempt]]:
        """All that is new in the files of all keepers, and the members that died with their keeper's orders."""
        self._kill_doomed()
        events: list[MemberEvent] = []
        never: list[_Attempt] = []
        for name, file in list(self._files.items()):
            lives = file.keeper_lives()
            events.extend(self._events_of(file.read()))
            if not lives and file is not self._own_and_alive():
                events.extend(self._settle(file))
                never.extend(sorted(file.sent))
                file.sent.clear()
                if not file.running:
                    del self._files[name]
        return events, never

    def find(self, tags: Iterable[str]) -> dict[str, frozenset[_Attempt]] | None:
        """Members per tag that reached a keeper; ``None`` while one that lost its engine still reads its orders."""
        deadline = time.monotonic() + _DRAIN_S
        while True:
            files = _keeper_files(self._run.keeper)
            for file in files.values():
                file.read()
            if all(file.closed or not file.keeper_lives() for file in files.values() if file.path != self._own_path):
                wanted = set(tags)
                return {tag: who for file in files.values() for tag, who in file.taken.items() if tag in wanted}
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)

    def end(self, attempts: Iterable[_Attempt], *, grace_s: float) -> int:
        """Ask attempts to end, and kill them when the grace is over; return how many there are."""
        wanted = set(attempts) - self._doomed.keys()
        self._signal(wanted, signal.SIGTERM)
        for attempt in wanted:
            self._doomed[attempt] = time.monotonic() + grace_s
        return len(wanted)

    def sweep(self) -> list[int]:
        """Kill what jobs of this run left behind, wherever it went; return the numbers of what was found."""
        found = [pid for pid, _ in processes_with(RUN_DIR_VARIABLE, str(self._run.root)) if pid != os.getpid()]
        for pid in found:
            _signal_process(pid, signal.SIGKILL)
        return found

    def wait(self, timeout_s: float) -> None:
        """Return when the keeper has written something, or after a time."""
        soonest = min(self._doomed.values(), default=float("inf")) - time.monotonic()
        timeout_s = max(0.0, min(timeout_s, soonest))
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
            self._forget_keeper()
        if self._tmp and not any(file.running for file in self._files.values()):
            shutil.rmtree(self._tmp, ignore_errors=True)

    def _send(self, order: bytes) -> None:
        if self._keeper is None:
            self._start_keeper()
        assert self._keeper is not None
        assert self._keeper.stdin is not None
        unsent = memoryview(order)
        while unsent:
            unsent = unsent[os.write(self._keeper.stdin.fileno(), unsent) :]

    def _start_keeper(self) -> None:
        program = self._run.keeper / "keeper.py"
        if not program.exists():
            shutil.copyfile(keeper_program.__file__, program)
        number = 1
        while (path := self._run.keeper / f"{self._life:04}.{number}.jsonl").exists():
            number += 1
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(program), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._own = self._files[path.name] = KeeperFile(path)
        self._own_path = path
        # The standard library's encoder, because the environment may hold bytes that are no text.
        self._send(json.dumps({"o": "env", "id": 0, "env": dict(os.environ)}).encode() + b"\n")

    def _own_and_alive(self) -> KeeperFile | None:
        # A keeper that was started a moment ago may not have taken its lock yet.
        return self._own if self._keeper and self._keeper.poll() is None else None

    def _forget_keeper(self) -> None:
        assert self._keeper is not None
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe:
                pipe.close()
        self._keeper = None

    def _events_of(self, records: Iterable[Record]) -> Iterator[MemberEvent]:
        for record in records:
            if isinstance(record, StartRecord):
                yield started(record, host=self._host)
            elif isinstance(record, EndRecord):
                self._doomed.pop((record.j, record.a), None)
                yield ended(record, host=self._host)

    def _settle(self, file: KeeperFile) -> Iterator[MemberEvent]:
        """What became of the attempts of a keeper that is gone."""
        same_boot = file.began is not None and file.began.boot == boot_id()
        for attempt in sorted(file.unstarted):
            # It may have been started in the last moment of the keeper, before that could be written down.
            self._kill_unrecorded(attempt)
            yield Lost(j=attempt[0], a=attempt[1], why="its keeper was killed while starting it")
        file.unstarted.clear()
        for attempt, start in list(file.running.items()):
            outcome = self._outcome(attempt, start, same_boot=same_boot)
            if outcome is not None:
                del file.running[attempt]
                self._doomed.pop(attempt, None)
                yield outcome

    def _outcome(self, attempt: _Attempt, start: StartRecord, *, same_boot: bool) -> MemberEvent | None:
        job, number = attempt
        if not same_boot:
            return Lost(j=job, a=number, why="the machine was restarted while it ran")
        try:
            # As reaper of orphans this process is now the parent, if it was the keeper's.
            pid, status, usage = os.wait4(start.pid, os.WNOHANG)
        except ChildProcessError:
            if is_same_process(start.pid, start.up):
                return None
            return Lost(
                j=job, a=number, why="nobody was there to see how it ended: its keeper and the engine were gone"
            )
        if not pid:
            return None
        _signal_group(start.pid, signal.SIGKILL)
        now = time.time()
        return ended_with_status(
            job,
            number,
            status,
            host=self._host,
            end=now,
            run_s=max(0.0, now - start.t),
            cpu_s=usage.ru_utime + usage.ru_stime,
            rss_b=usage.ru_maxrss * 1024,
        )

    def _kill_unrecorded(self, attempt: _Attempt) -> None:
        for pid, environment in processes_with(RUN_DIR_VARIABLE, str(self._run.root)):
            if environment.get("LONGSHORE_JOB_INDEX") == f"{attempt[0]}.{attempt[1]}":
                _signal_process(pid, signal.SIGKILL)

    def _kill_doomed(self) -> None:
        now = time.monotonic()
        overdue = {attempt for attempt, due in self._doomed.items() if due <= now}
        if overdue:
            self._signal(overdue, signal.SIGKILL)
            for attempt in overdue:
                # A process in the kernel's hands does not die at once: asked again in a second.
                self._doomed[attempt] = now + 1.0

    def _signal(self, attempts: set[_Attempt], number: signal.Signals) -> None:
        ours = self._own_and_alive()
        if ours and attempts:
            self._send(_encode({"o": "kill", "m": sorted(attempts), "sig": int(number)}) + b"\n")
        for file in self._files.values():
            if file is ours:
                continue
            for attempt in attempts & file.running.keys():
                start = file.running[attempt]
                if is_same_process(start.pid, start.up):
                    _signal_group(start.pid, number)


def _keeper_files(folder: Path) -> dict[str, KeeperFile]:
    return {path.name: KeeperFile(path) for path in sorted(folder.glob("*.jsonl"))}


def _private_folder(name: str) -> Path:
    # TMPDIR as the user has it; the fallback is the one POSIX names.
    parent = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108
    folder = parent / name
    folder.mkdir(mode=0o700)
    return folder


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _signal_process(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
