"""An allocation of pilots: its size, the shell that it runs, and the source that gives and ends allocations."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

import msgspec

from longshore.batch.dialect import HostLauncher, NodeLauncher
from longshore.batch.pilots.program import STARTER
from longshore.contract.service import RunPaths, Unreachable

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
