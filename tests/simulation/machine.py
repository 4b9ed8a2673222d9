"""Simulated machine of the local service: its kernel's processes, their parents, signals and ends.

Engines, keepers and guards are processes of the universe. Jobs have no program: they end as their plan says, or by a
signal.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.simulation.disk import Disk
from tests.simulation.manager import attempt_plan
from tests.simulation.pipes import Pipes
from tests.simulation.plan import AttemptPlan
from tests.simulation.truth import Truth
from tests.simulation.universe import Process, Universe

from longshore.contract.executor import AttemptId

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_JOB_VARIABLE: Final = "LONGSHORE_JOB_INDEX"
_REMOVAL_S: Final = 0.002
_SIGNAL_S: Final = 0.002
_RECHECK_S: Final = 0.5


class Task:
    """What the kernel knows of a process.

    `process` is the process of the universe; ``None`` for a job. `attempt` is that of a job.
    """

    def __init__(self, pid: int, parent: int, name: str, started_s: float, environment: Mapping[str, str]) -> None:
        self.pid = pid
        self.parent = parent
        self.name = name
        self.started_s = started_s
        self.environment = environment
        self.group = pid
        self.node = ""
        self.process: Process | None = None
        self.attempt: AttemptId | None = None
        self.plan = AttemptPlan()
        self.status: int | None = None
        """Wait status of a zombie; ``None`` while it runs."""
        self.is_subreaper = False
        self.wakeup: int | None = None
        """End of a pipe that gets a byte when a child ends."""


class Machine:
    """Processes of the machine, by number."""

    def __init__(self, universe: Universe, disk: Disk, truth: Truth) -> None:
        self.universe = universe
        self.disk = disk
        self.truth = truth
        self.pipes = Pipes(universe)
        self.tasks: dict[int, Task] = {}
        self.programs: dict[str, Callable[[list[str]], object]] = {}
        """What a Python program of the run directory does, by its file name."""

    # -------------------------------------------------------------------------------------------------------- processes

    def adopt(self, process: Process, *, parent: int = 1, name: str = "longshore") -> Task:
        """Enter a process of the universe."""
        task = self.tasks[process.pid] = Task(process.pid, parent, name, self.universe.since_boot(), {})
        task.process, task.node = process, process.node
        process.at_exit.append(lambda: self._exit(task, _status_of(process)))
        process.at_exit.append(lambda: self.pipes.close_all_of(process))
        return task

    def own_task(self) -> Task | None:
        """Return the task of the current process."""
        process = self.universe.current
        return self.tasks.get(process.pid) if process else None

    def start_program(self, words: list[str]) -> Process:
        """Start a program of the run directory as a child of the current process."""
        position = next(number for number, word in enumerate(words) if word.endswith(".py"))
        name = Path(words[position]).stem
        main = self.programs[name]
        own = self.own_task()
        process = self.universe.spawn(name, lambda: main(words[position + 1 :]))
        self.adopt(process, parent=own.pid if own else 1, name="python")
        process.at_exit.append(lambda: self.disk.close_files_of(process))
        return process

    def fork(self, name: str, main: Callable[[], object]) -> Process:
        """Start a copy of the current process, with its standard input and output, that does something else."""
        own = self.own_task()
        assert own is not None
        process = self.universe.spawn(name, main)
        self.adopt(process, parent=own.pid, name="python").group = own.group
        process.at_exit.append(lambda: self.disk.close_files_of(process))
        assert own.process is not None
        self.pipes.share(own.process, process)
        return process

    def start_job(self, words: list[str], environment: Mapping[str, str]) -> int:
        """Start a job, or a program that removes a folder; return its number."""
        own = self.own_task()
        assert own is not None
        pid = next(self.universe._pids)
        task = self.tasks[pid] = Task(pid, own.pid, Path(words[0]).name[:15], self.universe.since_boot(), environment)
        boot = self.universe.boot
        job, _, attempt = environment.get(_JOB_VARIABLE, "").partition(".")
        if not attempt:
            shutil.rmtree(words[-1], ignore_errors=True)
            self.universe.at(_REMOVAL_S, lambda: self._end_of_boot(boot, task, 0))
            return pid
        task.attempt, task.node = (int(job), int(attempt)), own.node
        task.plan = plan = attempt_plan(self.universe.plan, *task.attempt)
        self.truth.record_start(task.attempt)
        status = plan.signal or plan.exit << 8
        self.universe.at(plan.run_s, lambda: self._end_of_boot(boot, task, status))
        return pid

    def _end_of_boot(self, boot: int, task: Task, status: int) -> None:
        if boot == self.universe.boot and task.pid in self.tasks and task.status is None:
            self._exit(task, status)

    def _exit(self, task: Task, status: int) -> None:
        """End a task: it is a zombie until its parent asks for it."""
        if task.pid not in self.tasks or task.status is not None:
            return
        if task.attempt is not None:
            self.truth.record_end(task.attempt, succeeded=status == 0)
        task.status = int(status)
        for child in list(self.tasks.values()):
            if child.parent == task.pid:
                child.parent = self._heir(task)
                self._tell_parent(child)
        self._tell_parent(task)

    def _heir(self, task: Task) -> int:
        """Return who becomes the parent of a task's children: the next of its ancestors that asked for it."""
        ancestor = self.tasks.get(task.parent)
        while ancestor is not None:
            if ancestor.is_subreaper and ancestor.status is None:
                return ancestor.pid
            ancestor = self.tasks.get(ancestor.parent)
        return 1

    def _tell_parent(self, task: Task) -> None:
        if task.status is None:
            return
        parent = self.tasks.get(task.parent)
        if parent is None or parent.status is not None or parent.process is None:
            # The first process of the machine waits for whatever ends.
            del self.tasks[task.pid]
        elif parent.wakeup is not None:
            end = self.pipes._ends[parent.wakeup][0]
            end.content += b"\0"

    def lose_power(self) -> None:
        """End everything; how jobs would have ended nobody can know."""
        for task in self.tasks.values():
            if task.attempt is not None and task.status is None:
                self.truth.record_end(task.attempt, succeeded=False, is_knowable=False)
        self.tasks.clear()

    # ---------------------------------------------------------------------------------------------------------- signals

    def kill(self, pid: int, number: int) -> None:
        """Send a signal to a process."""
        self.universe.call("signal", f"{number} to {pid}")
        task = self.tasks.get(pid)
        if task is None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        self._signal(task, number)

    def killpg(self, group: int, number: int) -> None:
        """Send a signal to a process group: each job is one, and so are a guard and its keeper."""
        members = [task for task in self.tasks.values() if task.group == group and task.pid != group]
        self.kill(group, number)
        for task in members:
            self._signal(task, number)

    def _signal(self, task: Task, number: int) -> None:
        if task.status is not None or number == 0:
            return
        if task.process is not None:
            if number == signal.SIGKILL:
                self.universe.kill(task.process)
        elif number == signal.SIGKILL or not task.plan.hangs:
            self._exit(task, number)

    def lose_node(self, node: str) -> None:
        """End all that runs on a node."""
        for task in [each for each in self.tasks.values() if node and each.node == node]:
            if task.process is None:
                self._exit(task, signal.SIGKILL)
            elif self.universe.current is None or self.universe.current not in task.process.threads:
                self.universe.kill(task.process)

    def bind(self, task: Task) -> None:
        """Let a guard end with its parent, and all below it, as the signal of the kernel makes it do."""
        parent = self.tasks.get(task.parent)
        if parent is None or parent.process is None or parent.status is not None:
            self._end_tree(task)
        else:
            parent.process.at_exit.append(lambda: self.universe.at(_SIGNAL_S, lambda: self._end_tree(task)))

    def _end_tree(self, task: Task) -> None:
        if self.tasks.get(task.pid) is not task or task.status is not None or task.process is None:
            return
        if task.process.is_stopped:
            # The signal waits until it goes on.
            self.universe.at(_RECHECK_S, lambda: self._end_tree(task))
            return
        for each in self._below(task):
            self._signal(each, signal.SIGKILL)
        self.universe.kill(task.process)

    def _below(self, task: Task) -> list[Task]:
        children = [each for each in self.tasks.values() if each.parent == task.pid]
        return children + [each for child in children for each in self._below(child)]

    # ------------------------------------------------------------------------------------------------------------ waits

    def children(self) -> list[Task]:
        """Return the children of the current process."""
        own = self.own_task()
        return [task for task in self.tasks.values() if own is not None and task.parent == own.pid]

    def waitid(self, kind: int, pid: int, options: int) -> Any:
        """Return a child that ended, as `os.waitid` does."""
        self.universe.call("reap")

        def awaited() -> list[Task]:
            return [task for task in self.children() if kind == os.P_ALL or task.pid == pid]

        process = self.universe.current
        if not options & os.WNOHANG and process is not None and awaited():
            self.universe.block(float("inf"), lambda: self._has_ended_child(process.pid))
        own = awaited()
        if not own:
            raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))
        ended = next((task for task in own if task.status is not None), None)
        if ended is None:
            return None
        if not options & os.WNOWAIT:
            del self.tasks[ended.pid]
        assert ended.status is not None
        return _Ended(ended.pid, ended.status)

    def wait_for_child(self, timeout_s: float) -> None:
        """Wait until a child of the current process ended, or for the timeout."""
        self.universe.call("wait")
        process = self.universe.current
        assert process is not None
        self.universe.block(timeout_s, lambda: self._has_ended_child(process.pid))

    def _has_ended_child(self, pid: int) -> bool:
        """Return whether a child of a process ended, or it has none any more."""
        children = [task for task in self.tasks.values() if task.parent == pid]
        return not children or any(task.status is not None for task in children)

    def wait4(self, pid: int, options: int) -> tuple[int, int, Any]:
        """Take the end of a child, as `os.wait4` does."""
        self.universe.call("reap", str(pid))
        task = next((each for each in self.children() if pid in (-1, each.pid) and each.status is not None), None)
        if task is None:
            if not any(pid in (-1, each.pid) for each in self.children()):
                raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))
            return 0, 0, _Usage()
        del self.tasks[task.pid]
        assert task.status is not None
        return task.pid, task.status, _Usage()

    # ------------------------------------------------------------------------------------------------------------- proc

    def list_proc(self) -> list[str]:
        """Return the numbers of all processes."""
        self.universe.call("proc")
        return [str(pid) for pid in self.tasks]

    def read_proc(self, name: str) -> bytes:
        """Read a file of procfs."""
        self.universe.call("proc", name)
        if name == "sys/kernel/random/boot_id":
            return f"boot-{self.universe.boot}\n".encode()
        number, _, kind = name.partition("/")
        own = self.own_task()
        task = own if number == "self" else self.tasks.get(int(number)) if number.isdigit() else None
        if task is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/{name}")
        text = dict(self._proc_files(task)).get(kind)
        if text is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/{name}")
        return text

    def _proc_files(self, task: Task) -> Iterator[tuple[str, bytes]]:
        state = "R" if task.status is None else "Z"
        start = int(task.started_s * _TICKS)
        yield (
            "stat",
            f"{task.pid} ({task.name}) {state} {task.parent} {task.pid} {task.pid}{' 0' * 15} {start} 0\n".encode(),
        )
        yield "comm", f"{task.name}\n".encode()
        yield "cmdline", b"longshore\0drive\0"
        yield "environ", b"\0".join(f"{name}={value}".encode() for name, value in task.environment.items())
        yield "status", b"VmHWM: 1000 kB\n"
        yield "statm", b"100 100 50 0 0 0 0\n"


def _status_of(process: Process) -> int:
    if process.is_killed:
        return int(signal.SIGKILL)
    return 0 if process.error is None else 1 << 8


class _Ended:
    def __init__(self, pid: int, status: int) -> None:
        self.si_pid = pid
        self.si_code = os.CLD_KILLED if os.WIFSIGNALED(status) else os.CLD_EXITED
        self.si_status = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class _Usage:
    ru_utime = 0.01
    ru_stime = 0.0
    ru_maxrss = 2000
