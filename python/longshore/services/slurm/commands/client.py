"""Client of Slurm's programs (sbatch, squeue, sacct, scontrol, scancel); the only module that runs them."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from longshore.contract.context import Unreachable
from longshore.services.slurm.commands import parse
from longshore.services.slurm.commands.parse import AccountRow, ClusterFacts, TaskId
from longshore.sites.inherited_environment import InheritRule, select_inherited
from longshore.world.host import user_name
from longshore.world.processes.query_cache import CachedAnswer, cached_answer
from longshore.world.processes.rate_limit import RateLimit
from longshore.world.processes.shell import ProgramResult, Shell, SystemShell
from longshore.world.runs.registry import state_folder

LOG: Final = logging.getLogger("longshore.slurm")

_SLURM_VARIABLE: Final = re.compile(r"(SLURM|SBATCH|SQUEUE|SACCT|SCANCEL|SALLOC|SRUN|SINFO|PMI|PMIX)_?\w*")
_KEPT_VARIABLES: Final = frozenset({"SLURM_CONF"})
"""Variables of an enclosing job or of the user's settings that still reach Slurm's programs."""
REQUIRED_VARIABLES: Final = frozenset({"PATH", "SLURM_CONF"})
"""Variables that sbatch always gets and jobs therefore inherit, whatever the site's rule."""
_QUERY_S: Final = 60.0
_SUBMIT_S: Final = 90.0
"""Longer than Slurm's own MessageTimeout, so that a late reply is still read."""
_IDS_PER_CALL: Final = 400
"""Ids on one command line: few enough for limits of the kernel or of a site's wrapper."""
_TASKS_PER_CALL: Final = 100
"""Tasks of one array that are queried individually; beyond that, the whole array is queried."""


class SlurmClient:
    """Slurm's programs for one cluster.

    `settings` is the service's own map; ``config`` and ``clusters`` are used here. `setup` holds lines of shell that
    run before each program, such as ``module load slurm``. `inherit` selects the variables that jobs inherit; see
    `longshore.sites.inherited_environment.select_inherited`.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        shell: Shell | None = None,
        setup: Sequence[str] = (),
        inherit: InheritRule = "all",
    ) -> None:
        self._shell = shell or SystemShell()
        self._setup = tuple(setup)
        self._clusters = str(settings["clusters"]) if settings.get("clusters") else None
        self._env = scrubbed(os.environ)
        if settings.get("config"):
            self._env["SLURM_CONF"] = str(settings["config"])
        self._stored_fields: tuple[str, ...] | None = None
        """Fields of sacct to store that this version has; ``None`` before the first query."""
        names, _ = select_inherited(self._env, inherit)
        # Without these two, sbatch would not be found, or would not find its cluster.
        self._submit_environment = {
            name: self._env[name] for name in self._env if name in names or name in REQUIRED_VARIABLES
        }
        self.calls: dict[str, int] = {}
        """Number of calls per program."""

    @property
    def scrubbed(self) -> list[str]:
        """Names of the variables that Slurm's programs do not get."""
        return sorted(os.environ.keys() - self._env.keys())

    # ------------------------------------------------------------------------------------------------------ submit

    def submit(self, script: str, *options: str) -> ProgramResult:
        """Submit a script on the standard input of ``sbatch``, with options beside those in the script."""
        words = ["sbatch", "--parsable"]
        if self._clusters:
            words.append(f"--clusters={self._clusters}")
        return self._run([*words, *options], timeout_s=_SUBMIT_S, stdin=script, env=self._submit_environment)

    # --------------------------------------------------------------------------------------------------------- ask

    def queue(self, *, max_age_s: float, not_before: float = 0.0, floor_s: float = 0.0) -> CachedAnswer | None:
        """Return squeue's output for all of this user's jobs, shared by all processes here (`cached_answer`)."""
        return cached_answer(
            self._queue_path, max_age_s=max_age_s, query=self._ask_queue, not_before=not_before, min_interval_s=floor_s
        )

    def _ask_queue(self) -> tuple[str | None, str]:
        words = ["squeue", "--noheader", "--array", "--states=all", f"--user={user_name()}"]
        answer = self._run([*words, *self._cluster_option, f"--format={parse.QUEUE_FORMAT}"])
        return (answer.out, "") if answer.ok else (None, answer.why)

    @property
    def _queue_path(self) -> Path:
        return state_folder() / "newest" / f"squeue-{self._cluster_digest}.json"

    def submit_rate_limit(self, per_s: float) -> RateLimit:
        """Return the rate limit on sbatch for all processes of this user on this host."""
        return RateLimit(state_folder() / "newest" / f"sbatch-{self._cluster_digest}.turns", per_s)

    @property
    def _cluster_digest(self) -> str:
        """Return one name per cluster, independent of how a site selects it."""
        which = f"{self._env.get('SLURM_CONF', '')}\0{self._clusters or ''}\0{user_name()}"
        return sha256(which.encode()).hexdigest()[:16]

    def query_accounting(self, tasks: Iterable[TaskId]) -> dict[TaskId, AccountRow] | Unreachable:
        """Query sacct for tasks: fields that decide outcomes, and fields to store."""
        rows: dict[TaskId, AccountRow] = {}
        if self._stored_fields is None:
            answer = self._run(["sacct", "--helpformat"], timeout_s=_QUERY_S / 4)
            self._stored_fields = parse.stored_fields(answer.out) if answer.ok else None
        stored = self._stored_fields or ()
        for chunk in _chunks(_names_of(tasks)):
            answer = self._run([*self._sacct_words((*parse.ACCOUNT_FIELDS, *stored)), _jobs(chunk)])
            if not answer.ok:
                return Unreachable(why=answer.why)
            rows |= parse.gathered_rows(answer.out, stored)
        return rows

    def query_accounting_by_name(self, name: str, *, since: str) -> dict[TaskId, AccountRow] | Unreachable:
        """Query sacct for jobs of a name that existed since a moment (local time, ISO-8601)."""
        words = self._sacct_words(parse.ACCOUNT_FIELDS)
        answer = self._run([*words, f"--name={name}", f"--starttime={since}", f"--user={user_name()}"])
        return parse.account_rows(answer.out) if answer.ok else Unreachable(why=answer.why)

    def _sacct_words(self, fields: Sequence[str]) -> list[str]:
        return [
            "sacct",
            "--noheader",
            "--parsable2",
            f"--delimiter={parse.SEPARATOR}",
            f"--format={','.join(fields)}",
            *self._cluster_option,
        ]

    def show_job(self, task: TaskId) -> dict[str, str] | Unreachable | None:
        """Query ``scontrol show job`` for a task; ``None`` when the controller no longer has it."""
        answer = self._run(["scontrol", *self._cluster_option, "--oneliner", "show", "job", str(task)])
        if answer.ok:
            # A heterogeneous job has a line for each component; the first one counts.
            return dict(_pairs(answer.out.strip().partition("\n")[0]))
        return None if "Invalid job id" in answer.err else Unreachable(why=answer.why)

    def query_config(self) -> ClusterFacts | Unreachable:
        """Query the controller for facts of its cluster."""
        answer = self._run(["scontrol", *self._cluster_option, "show", "config"], timeout_s=_QUERY_S / 4)
        if not answer.ok:
            return Unreachable(why=answer.why)
        licences = self.ask(["scontrol", "--oneliner", "show", "licenses"], timeout_s=_QUERY_S / 4)
        return parse.with_licences(parse.cluster_facts(answer.out), licences.out if licences.ok else "")

    def ask(self, words: Sequence[str], *, timeout_s: float, of_cluster: bool = True) -> ProgramResult:
        """Run any other query, of the cluster or of the installation."""
        program, *rest = words
        return self._run([program, *(self._cluster_option if of_cluster else ()), *rest], timeout_s=timeout_s)

    # --------------------------------------------------------------------------------------------------------- act

    def cancel(self, tasks: Iterable[TaskId]) -> ProgramResult | None:
        """Cancel tasks; return the first failed call, or ``None``."""
        for chunk in _chunks([str(task) for task in tasks]):
            answer = self._run(["scancel", *self._cluster_option, *chunk])
            if not answer.ok:
                return answer
        return None

    def cancel_named(self, name: str) -> ProgramResult:
        """Cancel all jobs of a name."""
        return self._run(["scancel", *self._cluster_option, f"--name={name}", f"--user={user_name()}"])

    def release(self, jobs: Iterable[int]) -> ProgramResult | None:
        """Release held jobs; return the first failed call, or ``None``."""
        for chunk in _chunks([str(job) for job in jobs]):
            answer = self._run(["scontrol", *self._cluster_option, "release", ",".join(chunk)])
            if not answer.ok:
                return answer
        return None

    def renice(self, values: Mapping[int, int]) -> ProgramResult:
        """Change the nice value of waiting jobs in one call; ignores jobs that are gone."""
        # scontrol reads commands from its input, and continues after a failed one.
        lines = "".join(f"update JobId={job} Nice={nice}\n" for job, nice in values.items())
        return self._run(["scontrol", *self._cluster_option], stdin=lines)

    def cancel_waiting(self, tasks: Iterable[TaskId]) -> ProgramResult | None:
        """Cancel those tasks that have not started; return the first failed call, or ``None``."""
        for chunk in _chunks([str(task) for task in tasks]):
            answer = self._run(["scancel", *self._cluster_option, "--state=PENDING", *chunk])
            if not answer.ok:
                return answer
        return None

    # ---------------------------------------------------------------------------------------------------------------

    @property
    def _cluster_option(self) -> list[str]:
        return [f"--clusters={self._clusters}"] if self._clusters else []

    def _run(
        self,
        words: Sequence[str],
        *,
        timeout_s: float = _QUERY_S,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
    ) -> ProgramResult:
        self.calls[words[0]] = self.calls.get(words[0], 0) + 1
        argv: Sequence[str] = words
        if self._setup:
            argv = ["/bin/sh", "-c", "\n".join([*self._setup, 'exec "$@"']), words[0], *words]
        LOG.debug("asked: %s%s", shlex.join(words), f"\n{stdin}" if stdin else "")
        answer = self._shell.run(argv, env=self._env if env is None else env, timeout_s=timeout_s, stdin=stdin)
        LOG.debug("%s answered %s in %.2f s: %s%s", words[0], answer.status, answer.seconds, answer.out, answer.err)
        return answer


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove variables of an enclosing job or of a user's settings that would affect Slurm's programs."""
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT_VARIABLES or not _SLURM_VARIABLE.fullmatch(name)
    }


def _pairs(line: str) -> Iterable[tuple[str, str]]:
    """Split a line of scontrol into NAME=VALUE pairs; a value may contain blanks, a name cannot."""
    for found in re.finditer(
        r"(?:^|\s)([A-Za-z][\w:/.&*]*)=((?:(?!\s[A-Za-z][\w:/.&*]*=).)*)", line.strip(), re.DOTALL
    ):
        yield found[1], found[2].strip()


def _names_of(tasks: Iterable[TaskId]) -> list[str]:
    """Name tasks for a query: individually, or by their array when it has many of them."""
    by_job: dict[int, list[TaskId]] = {}
    for task in tasks:
        by_job.setdefault(task.job, []).append(task)
    names: list[str] = []
    for job, these in sorted(by_job.items()):
        names += [str(job)] if len(these) > _TASKS_PER_CALL else [str(task) for task in these]
    return names


def _jobs(names: Sequence[str]) -> str:
    return f"--jobs={','.join(names)}"


def _chunks(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[start : start + _IDS_PER_CALL] for start in range(0, len(items), _IDS_PER_CALL))
