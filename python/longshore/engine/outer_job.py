"""The job around a run, in whose request the run lives; apart because commands and engines share its variable.

A run that a job submits ends with that job.

"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Final

import msgspec

from longshore.model.workflow import MIB
from longshore.rundir.find_run import run_of_this_job
from longshore.system.host import is_same_process, process_start_s

OUTER_VARIABLE: Final = "LONGSHORE_OUTER_JOB"
"""Tells an engine, its keepers and its jobs of the job around the run."""
_IDENTITIES: Final = "_IDS"
_RESOURCE: Final = "LONGSHORE_JOB_RESOURCE_"


class OuterJob(msgspec.Struct, frozen=True):
    """A job that has submitted a run.

    Attributes
    ----------
    run
        Directory of its run.
    job, attempt
        Its name, and the number of its attempt from 1.
    pid, up
        Process that leads its session, and when that started, in seconds from boot to then; 0 if it is unknown.
    """

    run: str
    job: str
    attempt: int
    pid: int = 0
    up: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it has ended, as far as this host can tell."""
        return self.pid > 0 and not is_same_process(self.pid, self.up)

    @property
    def key(self) -> str:
        """A short name of the attempt, as no other has."""
        return blake2b(msgspec.json.encode((self.run, self.job, self.attempt)), digest_size=8).hexdigest()


def enter_outer_job(submitted_in: str) -> None:
    """Note the job that this process belongs to in the environment, for the engine of a run that it has submitted.

    `submitted_in` is the directory of the run whose job submitted the run. The variables by which that job's processes
    are found are removed: the engine of the inner run ends its jobs in order when the outer job ends, and must not be
    killed before.
    """
    # Imported here: `ping` asks only what the job was granted.
    from longshore.keeper.protocol import JOB_VARIABLE, RUN_VARIABLE

    run = run_of_this_job()
    if not run or run != submitted_in:
        # A person's run, or one that this job merely resumes.
        os.environ.pop(OUTER_VARIABLE, None)
        return
    marks = [os.environ.pop(name, None) for name in (JOB_VARIABLE, RUN_VARIABLE)]
    if OUTER_VARIABLE in os.environ and not any(marks):
        # Noted before, for an engine on standby.
        return
    name, attempt = os.environ.get("LONGSHORE_JOB_NAME", ""), os.environ.get("LONGSHORE_JOB_ATTEMPT", "1")
    # Each job leads a session of its own; it may be this very process.
    leader = os.getsid(0)
    start_s = process_start_s(leader)
    outer = OuterJob(run, name, int(attempt) if attempt.isdigit() else 1, leader if start_s else 0, start_s or 0.0)
    os.environ[OUTER_VARIABLE] = msgspec.json.encode(outer).decode()


def read_outer_job(env: Mapping[str, str] = os.environ) -> OuterJob | None:
    """Return the job around the run whose engine this process is."""
    with suppress(msgspec.DecodeError, KeyError):
        return msgspec.json.decode(env[OUTER_VARIABLE], type=OuterJob)
    return None


def limit_to_outer_job(
    capacity: Mapping[str, int], identities: Mapping[str, tuple[str, ...]], env: Mapping[str, str] = os.environ
) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """Return what of a machine's resources the job around a run was granted; all of them outside of jobs."""
    if "LONGSHORE_JOB_CPUS" not in env:
        return dict(capacity), dict(identities)
    # Imported late: `ping` outside of jobs does without commands.
    from longshore.jobs.commands import resource_variable

    granted = {"cpus": _number(env, "LONGSHORE_JOB_CPUS", 1)}
    for name, variable in (("memory", "LONGSHORE_JOB_MEMORY_MB"), ("disk", "LONGSHORE_JOB_DISK_MB")):
        # Without a request, it was not counted.
        granted[name] = _number(env, variable, 1 << 40) * MIB
    members = {}
    for name, those in identities.items():
        own = env.get(f"{_RESOURCE}{resource_variable(name)}{_IDENTITIES}", "").split(",")
        members[name] = tuple(each for each in those if each in own)
    amounts = {
        name: len(members[name])
        if name in members
        else min(amount, granted.get(name, _number(env, f"{_RESOURCE}{resource_variable(name)}", 0)))
        for name, amount in capacity.items()
    }
    return amounts, members


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    return int(text) if text.isdigit() else default
