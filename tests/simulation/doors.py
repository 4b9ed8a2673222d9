"""Doors of the local service and its keeper onto the simulated machine, in the places of those onto the real one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.doors import replace_calls
from tests.simulation.machine import Machine
from tests.simulation.pipes import FIRST_NUMBER
from tests.simulation.universe import Process, Universe

from longshore.keeper import program as keeper
from longshore.keeper.program.guard import GuardSystem
from longshore.keeper.program.guard import system as guard_system
from longshore.keeper.program.kernel import System, system
from longshore.services.batch.pilots.program.pilot_system import PilotSystem
from longshore.services.batch.pilots.program.pilot_system import system as pilot_system
from longshore.system.processes import processes


class _Library:
    """What the keeper calls of the C library."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def prctl(self, *arguments: int) -> int:
        task = self._machine.own_task()
        if task is not None:
            task.is_subreaper = True
        return 0


class SimulatedSystem:
    """The door of the keeper and of the local service; what is not simulated is as it is."""

    def __init__(self, machine: Machine, temporary: Path) -> None:
        self._machine = machine
        self._universe = universe = machine.universe
        self._disk = disk = machine.disk
        self._temporary = temporary
        self._proc: dict[int, bytes] = {}
        self._proc_numbers = count(FIRST_NUMBER * 2)
        self._folders = count(1)
        for name in ("mkdir", "makedirs", "rmdir", "rename", "flock", "pread", "pwrite", "fsync"):
            setattr(self, name, getattr(disk, name))
        for name in ("kill", "killpg", "waitid", "wait4", "list_proc", "read_proc"):
            setattr(self, name, getattr(machine, name))
        vars(self).update(
            time=universe.now,
            monotonic=universe.elapsed,
            thread_time=lambda: 0.0,
            clock_gettime=lambda _clock: universe.since_boot(),
            set_signal=lambda *_: None,
            set_switch_interval=lambda _: None,
            c_library=lambda: _Library(machine),
            lexists=self._lexists,
            chdir=lambda _path: None,
            block_signals=lambda *_: None,
            wait_for_signal=lambda _numbers, timeout_s: machine.wait_for_child(timeout_s),
            readlink=self._readlink,
            listdir=self._listdir,
            environment=lambda: {"PATH": "/usr/bin:/bin"},
            remove_tree=lambda path: shutil.rmtree(path, ignore_errors=True),
            start_thread=self._start_thread,
            make_event=lambda: SimulatedEvent(universe),
        )

    def __getattr__(self, name: str) -> Any:
        owner = next((each for each in (System, GuardSystem) if hasattr(each, name)), PilotSystem)
        return getattr(owner, name)

    def _lexists(self, path: str) -> bool:
        if path.startswith("/proc/"):
            return int(path[len("/proc/") :]) in self._machine.tasks
        try:
            self._disk.stat(path, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _listdir(self, path: str) -> list[str]:
        return self._machine.list_proc() if path == "/proc" else self._disk.listdir(path)

    def _start_thread(self, main: Callable[[], object]) -> None:
        thread = self._universe.start_thread(main)
        thread.at_exit.append(lambda: self._disk.close_files_of(thread))

    def _readlink(self, path: str) -> str:
        # Output of simulated jobs goes nowhere.
        raise FileNotFoundError(path)

    def stat(self, path: Any, **options: Any) -> os.stat_result:
        return self._disk.stat(path, **options)

    def lstat(self, path: Any) -> os.stat_result:
        return self._disk.stat(path, follow_symlinks=False)

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        name = os.fspath(path)
        if name.startswith("/proc/"):
            number = next(self._proc_numbers)
            self._proc[number] = self._machine.read_proc(name[len("/proc/") :])
            return number
        if name.startswith("/sys/"):
            raise FileNotFoundError(name)
        return self._disk.open(path, flags, mode, **options)

    def close(self, number: int) -> None:
        process = self._universe.current
        if number in self._proc:
            del self._proc[number]
        elif (pipe := self._machine.pipes.find(number)) is not None:
            if process is not None:
                self._machine.pipes.close(pipe, process)
        else:
            self._disk.close(number)

    def read(self, number: int, size: int) -> bytes:
        if number in self._proc:
            text, self._proc[number] = self._proc[number], b""
            return text
        if (pipe := self._machine.pipes.find(number)) is not None:
            fault = self._universe.call("pipe")
            data = self._machine.pipes.read(pipe, size)
            self._universe.finish(fault)
            return data
        return self._disk.read(number, size)

    def write(self, number: int, data: Any) -> int:
        if (pipe := self._machine.pipes.find(number)) is not None:
            fault = self._universe.call("pipe")
            if fault is not None and fault.kind == "kill" and len(data) > 1:
                data = bytes(data)[: self._universe.lot.randint(1, len(data) - 1)]
            written = self._machine.pipes.write(pipe, bytes(data))
            self._universe.finish(fault)
            return written
        return self._disk.write(number, data)

    def pipe(self) -> tuple[int, int]:
        own = self._current()
        return self._machine.pipes.make(own, own)

    def _current(self) -> Process:
        process = self._universe.current
        assert process is not None
        return process

    def set_blocking(self, number: int, blocking: bool) -> None:
        self._machine.pipes.set_blocking(number, blocking=blocking)

    def select(
        self, readers: Sequence[int], writers: Sequence[int], others: Sequence[int], timeout_s: float | None = None
    ) -> tuple[list[int], list[int], list[int]]:
        fault = self._universe.call("wait")
        readable = self._machine.pipes.wait(readers, timeout_s)
        self._universe.finish(fault)
        return readable, [], []

    def set_wakeup_fd(self, number: int, **options: Any) -> None:
        task = self._machine.own_task()
        assert task is not None
        task.wakeup = self._machine.pipes.find(number)

    def getpid(self) -> int:
        return self._current().pid

    def getppid(self) -> int:
        task = self._machine.own_task()
        return task.parent if task else 1

    def posix_spawn(self, path: str, words: list[str], environment: Any, **options: Any) -> int:
        fault = self._universe.call("act", f"spawn {environment.get('LONGSHORE_JOB_INDEX', words[0])}")
        pid = self._machine.start_job(list(words), dict(environment))
        self._universe.finish(fault)
        return pid

    # ------------------------------------------------------------------------------------------- the engine's side

    def sleep(self, seconds: float) -> None:
        self._universe.call("wait")
        self._universe.block(seconds)

    def make_temporary_folder(self, **options: Any) -> str:
        folder = self._temporary / f"{options.get('prefix', 'tmp')}{next(self._folders)}"
        folder.mkdir()
        return str(folder)

    def popen(self, words: list[str], **options: Any) -> SimulatedPopen:
        fault = self._universe.call("act", f"start {keeper.PROGRAM}")
        started = SimulatedPopen(self._machine, words)
        self._universe.finish(fault)
        return started


class SimulatedEvent:
    """An event of threads."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout_s: float) -> bool:
        self._universe.call("wait")
        if not self._is_set:
            self._universe.block(timeout_s, lambda: self._is_set)
        return self._is_set


class _End:
    """An end of a pipe, as `subprocess.Popen` has it."""

    def __init__(self, machine: Machine, number: int, owner: Process) -> None:
        self._machine = machine
        self._number = number
        self._owner = owner

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self._machine.pipes.close(self._number, self._owner)


class SimulatedPopen:
    """A started program."""

    def __init__(self, machine: Machine, words: list[str]) -> None:
        self._machine = machine
        owner = machine.universe.current
        assert owner is not None
        self._process = process = machine.start_program(words)
        self.pid = process.pid
        self.returncode: int | None = None
        pipes = machine.pipes
        theirs, ours = pipes.make(process, owner)
        pipes.put_at(process, 0, theirs)
        self.stdin = _End(machine, ours, owner)
        ours, theirs = pipes.make(owner, process)
        pipes.put_at(process, 1, theirs)
        self.stdout = _End(machine, ours, owner)

    def poll(self) -> int | None:
        if self.returncode is None and self._process.is_dead:
            self._machine.tasks.pop(self.pid, None)
            self.returncode = -9
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._machine.universe.call("wait")
        if self.returncode is None:
            limit = float("inf") if timeout is None else timeout
            self._machine.universe.block(limit, lambda: self._process.is_dead)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("keeper", timeout or 0.0)
        return status

    def kill(self) -> None:
        if self.poll() is None:
            self._machine.universe.kill(self._process)


@contextmanager
def simulated_machine(door: SimulatedSystem) -> Iterator[None]:
    """Let the keeper and the local service call the simulated machine."""
    with (
        replace_calls(system, door),
        replace_calls(guard_system, door),
        replace_calls(pilot_system, door),
        replace_calls(processes, door),
    ):
        yield
