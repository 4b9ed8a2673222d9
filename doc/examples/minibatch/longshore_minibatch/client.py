"""Calls the programs of minibatch; no other module does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from longshore.contract.executor import Accepted, Rejected, SubmitResult, Unsure
from longshore.contract.service import Unreachable
from longshore.engine.job_wrapper import inherited_environment


class MinibatchClient:
    """Calls mb-submit, mb-queue and mb-cancel.

    Parameters
    ----------
    settings
        Settings of the executor.
    """

    timeout_s = 10.0
    """Seconds in which a program must answer."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        needed = ("PATH", "HOME", "MINIBATCH_SPOOL", "MINIBATCH_CPUS")
        self._environment = inherited_environment(settings, needed=needed)
        if spool := settings.get("minibatch", {}).get("spool"):
            self._environment["MINIBATCH_SPOOL"] = str(spool)

    def submit(self, name: str, cpus: int, script: Path) -> SubmitResult:
        """Submit a script as a job of that name."""
        done = self._call("mb-submit", "-n", name, "-c", str(cpus), str(script))
        if done is None:
            return Unsure("mb-submit did not answer")
        if done.returncode:
            return Rejected(done.stderr.strip())
        number = done.stdout.strip()
        return Accepted(number) if number else Unsure("mb-submit printed no id")

    def queue(self) -> frozenset[str] | Unreachable:
        """Return the names of the jobs that are not over."""
        done = self._call("mb-queue")
        if done is None or done.returncode:
            return Unreachable(why=done.stderr.strip() if done else "mb-queue did not answer")
        return frozenset(line.split()[1] for line in done.stdout.splitlines())

    def processors(self) -> int | Unreachable:
        """Return how many processors a job can have."""
        done = self._call("mb-queue", "--cpus")
        if done is None or done.returncode:
            return Unreachable(why=done.stderr.strip() if done else "mb-queue did not answer")
        return int(done.stdout)

    def cancel(self, names: Iterable[str], *, grace_s: float) -> bool:
        """Cancel the jobs of these names; return whether mb-cancel succeeded."""
        done = self._call("mb-cancel", "-g", str(grace_s), *names)
        return done is not None and not done.returncode

    def _call(self, *words: str) -> subprocess.CompletedProcess[str] | None:
        """Run a program; return ``None`` if it did not end in time."""
        try:
            return subprocess.run(
                words, env=self._environment, timeout=self.timeout_s, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        except OSError as error:
            return subprocess.CompletedProcess(words, 127, "", f"{words[0]}: {error.strerror}")
