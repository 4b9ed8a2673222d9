"""Probe of this machine: what its jobs may use at once. `ping` needs no more than this module."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from longshore.contract.context import PingReport
from longshore.services.local.gpus import named_members
from longshore.world.host import host_name, physical_memory, usable_cpus
from longshore.world.processes.detach import choose_detach_method
from longshore.world.runs.registry import state_folder


def probe_machine(pool: Mapping[str, int | Iterable[str]]) -> PingReport:
    """Return this machine's resources; `pool` has the amount or the members of each configured one."""
    identities = named_members(pool, os.environ)
    capacity = pool_capacity(pool, identities)
    details = {name: format_amount(name, amount) for name, amount in capacity.items()}
    details |= {name: f"{len(members)} ({', '.join(members)})" for name, members in identities.items() if members}
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
    return {"cpus": usable_cpus(), "memory": physical_memory()} | amounts | members


def format_amount(name: str, amount: int) -> str:
    """Return an amount of a resource for people: memory and disk in MiB."""
    return f"{amount / 2**20:.0f} MiB" if name in {"memory", "disk"} else str(amount)
