"""Shell that an allocation runs: it chooses a Python, and starts the pilot program on each node (pure functions)."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from longshore.batch.pilots.program import STARTER
from longshore.batch.scripts.node_launchers import HostLauncher, NodeLauncher
from longshore.contract.service import RunPaths

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
