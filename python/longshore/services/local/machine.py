"""Probe of this machine: what its jobs may use at once, its GPUs too. `ping` needs no more than this module."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from longshore.contract.service import PingReport
from longshore.engine.outer_job import limit_to_outer_job
from longshore.jobs.commands import GPU_RESOURCES
from longshore.model.wording import count_noun
from longshore.rundir.find_run import run_of_this_job
from longshore.rundir.registry import state_folder
from longshore.system.detached import choose_detach_method
from longshore.system.host import host_name, physical_memory, usable_cpus

# GPUs, from the environment and drivers' files, without starting a program.


_NONE: Final = {"", "-1", "none", "void", "NoDevFiles"}
"""Values of the variables of CUDA and of containers that mean no GPU."""


def named_members(
    pool: Mapping[str, int | Iterable[str]], env: Mapping[str, str], *, root: Path = Path("/")
) -> dict[str, tuple[str, ...]]:
    """Return the members of every resource whose members have names.

    `pool` holds the configured amount or list of members per resource. `env` may restrict the visible GPUs. `root` is
    the folder with ``/dev`` and ``/sys``.
    """
    members = {name: tuple(configured) for name, configured in pool.items() if not isinstance(configured, int)}
    for name in GPU_RESOURCES:
        configured = pool.get(name)
        if isinstance(configured, int):
            visible = _visible_gpus(env) or ()
            members[name] = visible[:configured] if len(visible) >= configured else tuple(map(str, range(configured)))
    if not any(name in pool for name in GPU_RESOURCES) and (found := detected_gpus(env, root=root)):
        members["gpus"] = found
    return members


def detected_gpus(env: Mapping[str, str], *, root: Path = Path("/")) -> tuple[str, ...]:
    """Name the GPUs: those the environment shows, else those of the drivers of NVIDIA and AMD."""
    visible = _visible_gpus(env)
    if visible is not None:
        return visible
    count = _count_nvidia(root) or _count_amd(root)
    return tuple(map(str, range(count)))


def _visible_gpus(env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the GPUs that the environment shows; ``None`` where it does not restrict them."""
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        if variable in env:
            entries = [word.strip() for word in env[variable].split(",")]
            # As in CUDA: entries after an invalid one do not count.
            end = next((index for index, word in enumerate(entries) if word in _NONE), len(entries))
            names = tuple(dict.fromkeys(entries[:end]))
            # Below ROCR's variable, which jobs inherit, the other variables count from 0 again.
            return tuple(map(str, range(len(names)))) if variable.startswith("ROCR") else names
    return None


def _count_nvidia(root: Path) -> int:
    return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in _list_folder(root / "dev"))


def _count_amd(root: Path) -> int:
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    count = 0
    for name in _list_folder(nodes):
        try:
            properties = (nodes / name / "properties").read_text("ascii", errors="replace")
        except OSError:
            continue
        found = re.search(r"^simd_count (\d+)$", properties, re.MULTILINE)
        count += found is not None and int(found[1]) > 0
    return count


def _list_folder(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


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
