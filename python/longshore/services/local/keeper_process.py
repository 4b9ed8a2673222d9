"""A keeper with its guard, as processes that this engine started, and the pipes to the keeper."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from longshore.contract.service import RunPaths
from longshore.keeper.program import FILES, FOLDER, PROGRAM
from longshore.keeper.scratch_folders import temporary_prefix
from longshore.rundir.journal import life_path
from longshore.services.local.keeper_file import KeeperFile
from longshore.system.atomic import write_atomically
from longshore.system.files import files
from longshore.system.host import descendants, process_start_s
from longshore.system.processes import processes, signal_group, signal_process
from longshore.system.reading import is_local_file_system

_START_LIMIT_S: Final = 30.0
"""Seconds a keeper may take to start."""
_SUFFIXES: Final = (".jsonl", ".guard")
"""Ends of the names of a keeper's file and of its guard's."""
_FORK_ERRORS: Final = frozenset({errno.EAGAIN, errno.ENOMEM})
"""Exit statuses of a guard that could not start its keeper."""


class KeeperProcess:
    """The keeper of a life of the engine; its records are in `file`.

    `scratch` is the folder of the attempts' temporary directories; ``None`` is the machine's default. `units` is the
    file of what attempts hold of the machine, if they share it. Raises `OSError` when the keeper does not start.
    """

    def __init__(self, run: RunPaths, life: int, *, scratch: str | None, units: Path | None = None) -> None:
        for name in FILES:
            write_atomically(run.keeper / name, (FOLDER / name).read_bytes(), below=run.root)
        number = 1
        while any((run.keeper / f"{life:04}.{number}{suffix}").exists() for suffix in _SUFFIXES):
            number += 1
        self.file = KeeperFile(run.keeper / f"{life:04}.{number}.jsonl")
        # The journal of a newer engine: when it appears, the keeper has lost its own.
        successor = life_path(run.journal, life + 1)
        disk = "near" if is_local_file_system(run.root) else "far"
        shared = [] if units is None else [str(units)]
        tmp = processes.make_temporary_folder(prefix=f"{temporary_prefix()}{run.root.name[:40]}-", dir=scratch)
        program = run.keeper / PROGRAM
        try:
            self._guard = processes.popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-B",
                    str(program),
                    str(self.file.path),
                    tmp,
                    str(successor),
                    disk,
                    *shared,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError:
            files.rmdir(tmp)
            raise
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        self._input, self._news = self._guard.stdin, self._guard.stdout
        try:
            has_started = self.wait(_START_LIMIT_S, is_news_due=True)
            if has_started:
                self.file.read()
        except OSError:
            # It has no commands, and would wait for them as long as its pipe is open.
            self._remove(tmp)
            raise
        if not has_started:
            # A keeper that ends at once would report commands as never started, for ever.
            self._fail_to_start(tmp, run.engine_log)
        record = self.file.keeper_record
        self._pid = record.pid if record else 0
        self._start_s = process_start_s(self._pid)

    def _remove(self, tmp: str) -> None:
        """End a keeper that got no commands, with its guard."""
        # Guard and keeper are one process group; nothing else is in it.
        signal_group(self._guard.pid, signal.SIGKILL)
        self.disconnect(wait_s=None)
        files.rmdir(tmp)

    def _fail_to_start(self, tmp: str, log: Path) -> NoReturn:
        self._remove(tmp)
        why = f"it ended before it started; its output is in '{log}'"
        # The guard exits with the error of its fork.
        code = self._guard.returncode
        raise OSError(code, why) if code in _FORK_ERRORS else OSError(why)

    def write(self, order: bytes) -> None:
        """Send an order; `BrokenPipeError` if the keeper is dead."""
        unsent = memoryview(order)
        while unsent:
            unsent = unsent[processes.write(self._input.fileno(), unsent) :]

    def wait(self, timeout_s: float, *, is_news_due: bool = False) -> bool:
        """Wait for news or the timeout; return false if the keeper is dead, or news were due and did not come."""
        pipe = self._news.fileno()
        if processes.select([pipe], [], [], timeout_s)[0]:
            return bool(processes.read(pipe, 65536))
        return not is_news_due

    def is_running(self) -> bool:
        """Whether the keeper is there, which does not depend on its guard."""
        return self.file.is_keeper_alive() or (
            self._start_s is not None and process_start_s(self._pid) == self._start_s
        )

    def end(self) -> None:
        """End a keeper that is dying or of no use; its guard stays for its orphans."""
        while self.is_running():
            signal_process(self._pid, signal.SIGKILL)
            processes.sleep(0.001)
        if self._pid:
            # Without a guard it was a child of this process.
            with suppress(ChildProcessError):
                processes.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG)
        self.disconnect(wait_s=0.0)

    def disconnect(self, *, wait_s: float | None) -> None:
        """Close the pipes, so that the keeper ends when nothing runs, and wait so long for keeper and guard."""
        for pipe in (self._input, self._news):
            pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(wait_s)

    def is_guard_running(self) -> bool:
        """Whether the guard is there; reaps it if not."""
        return self._guard.poll() is None

    def release(self) -> None:
        """Let keeper and guard go on without this process."""
        if self.is_guard_running():
            # Without this `Popen` would warn of it.
            self._guard.returncode = 0

    def descendants(self) -> set[int]:
        """List the descendants of the keeper, and the orphans that its guard took over."""
        roots = {self._guard.pid} if self.is_guard_running() else set()
        if self.is_running():
            roots.add(self._pid)
        return {pid for root in roots for pid in descendants(root)} - {self._pid}
