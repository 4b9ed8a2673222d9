"""What a job asks of HTCondor: its request, then its own commands, which win (pure functions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from longshore.batch.answers import BINARY_UNITS, parse_number, parse_size
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, Allocation, JobSettings

_MEMORY_UNITS: Final = {**BINARY_UNITS, "": MIB}
_DISK_UNITS: Final = {**BINARY_UNITS, "": 1024}
"""Bytes per unit: a number of `request_memory` is in MiB, and one of `request_disk` in KiB (condor_submit(1))."""


def allocation(job: JobSettings) -> Allocation:
    """Return what a job asks for; of a command whose value is an expression, the request counts."""
    given = _commands(job.service_settings)
    found = Allocation.of_request(job.request)
    limit_s = parse_number(given.get("allowed_execute_duration", ""))
    return msgspec.structs.replace(
        found,
        cpus_per_task=parse_number(given.get("request_cpus", "")) or found.cpus_per_task,
        memory_b=parse_size(given.get("request_memory", ""), _MEMORY_UNITS) or found.memory_b,
        disk_b=parse_size(given.get("request_disk", ""), _DISK_UNITS) or found.disk_b,
        walltime_s=found.walltime_s if limit_s is None else float(limit_s),
    )


def _commands(own: Mapping[str, YamlValue]) -> dict[str, str]:
    """Return the commands of `profile.condor` and of raw lines, in lower case."""
    profile, lines = own.get("profile.condor"), own.get("directives")
    pairs = list(profile.items()) if isinstance(profile, Mapping) else []
    for line in lines if isinstance(lines, list) else ():
        name, _, value = str(line).partition("=")
        pairs.append((name, value))
    return {name.strip().lower(): str(value).strip() for name, value in pairs if value is not None}
