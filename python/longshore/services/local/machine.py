"""Probe of this machine: what its jobs may use at once. `ping` needs no more than this module."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from longshore.contract.service import PingReport
from longshore.engine.rundir.outer_job import limit_to_outer_job
from longshore.model.wording import count_noun
from longshore.rundir.find_run import run_of_this_job
from longshore.rundir.registry import state_folder
from longshore.services.local.gpus import named_members
from longshore.system.detached import choose_detach_method
from longshore.system.host import host_name, physical_memory, usable_cpus

_ALLOCATIONS: Final = (
    ("SLURM_JOB_ID", "SLURM_CPUS_ON_NODE"),
    ("SGE_TASK_ID", "NSLOTS"),
    ("LSB_JOBID", "LSB_DJOB_NUMPROC"),
    ("PBS_JOBID", "NCPUS"),
)
"""Variables of batch systems: one that is set in each job, and the number of its processors; see sbatch(1), qsub(1)."""


def probe_machine(pool: Mapping[str, int | Iterable[str]]) -> PingReport:
    """Return this machine's resources; `pool` has the amount or the members of each configured one."""
    identities = named_members(pool, os.environ)
    capacity, identities = limit_to_outer_job(pool_capacity(pool, identities), identities)
    details = {name: format_amount(name, amount) for name, amount in capacity.items()}
    details |= {name: f"{len(members)} ({', '.join(members)})" for name, members in identities.items() if members}
    if outer := run_of_this_job():
        details["job"] = f"its jobs share the request of job '{os.environ.get('LONGSHORE_JOB_NAME', '')}' of '{outer}'"
    elif (allocated := allocated_cpus(os.environ)) and capacity["cpus"] == allocated[1]:
        details["job"] = (
            f"its jobs share the {count_noun(allocated[1], 'processor')} of this batch job ({allocated[0]})"
        )
    details |= {"host": host_name(), "state": str(state_folder()), "engine": choose_detach_method().description}
    return PingReport(
        service="local",
        ok=True,
        message="this machine takes jobs",
        details=details,
        capacity=capacity,
        identities=identities,
    )


def pool_capacity(pool: Mapping[str, int | Iterable[str]], identities: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the amounts jobs may use at once: as configured, else this machine's processors, memory and GPUs."""
    amounts = {name: available for name, available in pool.items() if isinstance(available, int)}
    members = {name: len(members) for name, members in identities.items()}
    cpus = min((usable_cpus(), *(number for _, number in filter(None, [allocated_cpus(os.environ)]))))
    return {"cpus": cpus, "memory": physical_memory()} | amounts | members


def allocated_cpus(env: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the variable of a batch system, and the processors of this job on this host; ``None`` outside of jobs.

    Not all sites bind a job to its processors: those of the others are not to be used.
    """
    for job, variable in _ALLOCATIONS:
        if job in env and env.get(variable, "").isdigit():
            return variable, max(1, int(env[variable]))
    return None


def format_amount(name: str, amount: int) -> str:
    """Return an amount of a resource for people: memory and disk in MiB."""
    return f"{amount / 2**20:.0f} MiB" if name in {"memory", "disk"} else str(amount)
