"""Checks that a pool answers and accepts jobs, and finds the capacity of its largest machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from longshore.contract.service import PingReport
from longshore.errors import ConfigError, ServiceError, UnreachableError
from longshore.model.values import RegexError, compile_regex
from longshore.model.workflow import MIB
from longshore.services.htcondor.schedd.bindings import version_error
from longshore.services.htcondor.schedd.client import NAME, Ad, CondorClient
from longshore.system.host import CpuLimitError, cpu_limit

_MATCH_S: Final = 5.0
"""Processor time in which the names of all machines must be matched."""
_MACHINE: Final = ("Machine", "TotalCpus", "TotalMemory", "TotalDisk", "TotalGPUs", "TotalSlotCpus", "TotalSlotMemory")


def ping(client: CondorClient, *, pattern: str = "") -> PingReport:
    """Query the collector and the schedd.

    `pattern` is a regular expression of machine names; the matching machines determine the capacity, or all if none
    matches. Raises `ConfigError` if it is no regular expression.
    """
    machines_like(pattern)
    details: dict[str, str] = {}
    try:
        details["bindings"] = client.version()
        collector = client.collector()
        details["collector"] = f"{collector.name} ({collector.version})"
        schedd = client.schedd()
        details["schedd"] = f"{schedd.name} ({schedd.version})"
        # This finds a schedd that hangs within seconds; the next query would wait for minutes.
        client.require_answer()
        who = client.authenticate(schedd)
        details["authenticated"] = f"{who.get('MyRemoteUserName', '?')} by {who.get('AuthMethods', '?')}"
        machines = client.query_machines(_MACHINE)
    except (ServiceError, UnreachableError) as error:
        message = f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message
        return PingReport(service=NAME, ok=False, message=message, details=details)
    if who.get("AuthorizationSucceeded", "True") != "True":
        message = f"the schedd '{schedd.name}' rejects commands from {details['authenticated']}"
        return PingReport(service=NAME, ok=False, message=message, details=details)
    names = {str(ad.get("Machine")) for ad in machines}
    details["machines"] = str(len(names))
    if old := version_error(schedd.version):
        return PingReport(service=NAME, ok=False, message=f"{old}; 24 or later is needed", details=details)
    message = f"HTCondor {schedd.version}: schedd '{schedd.name}' accepts jobs, {len(names)} machines"
    return PingReport(
        service=NAME, ok=True, message=message, details=details, capacity=capacity_of(machines, pattern) or None
    )


def machines_like(pattern: str) -> re.Pattern[str]:
    """Compile ``executeMachinesPattern``.

    Raises `ConfigError` if it is no regular expression.
    """
    try:
        return compile_regex(pattern)
    except RegexError as error:
        raise ConfigError(
            f"'executeMachinesPattern' is no regular expression: '{pattern}' ({error})",
            hint="One is like '.*worker.*': '*' means any number of what stands before it.",
        ) from error


def capacity_of(machines: Sequence[Ad], pattern: str) -> dict[str, int]:
    """The largest amount of each resource on any machine.

    `machines` are ads, one or more per machine. Machines whose name matches `pattern` count, or all if none matches.
    """
    like = machines_like(pattern)
    try:
        with cpu_limit(_MATCH_S):
            chosen = [ad for ad in machines if pattern and like.match(str(ad.get("Machine", "")))] or machines
    except CpuLimitError:
        raise ConfigError(f"'executeMachinesPattern' takes too long on names of machines: '{pattern}'") from None
    found: dict[str, int] = {}
    for resource, names, unit in (
        ("cpus", ("TotalCpus", "TotalSlotCpus"), 1),
        ("memory", ("TotalMemory", "TotalSlotMemory"), MIB),
        ("disk", ("TotalDisk",), 1024),
        ("gpus", ("TotalGPUs",), 1),
    ):
        amounts = [int(float(ad[name])) * unit for ad in chosen for name in names[:1] if ad.get(name)]
        amounts = amounts or [int(float(ad[name])) * unit for ad in chosen for name in names[1:] if ad.get(name)]
        if amounts:
            found[resource] = max(amounts)
    return found


def query_load(client: CondorClient) -> dict[str, float]:
    """Return the processors of the pool, and those that no job has.

    Raises `UnreachableError` if the collector does not answer.
    """
    slots = client.query_machines(("SlotType", "State", "Cpus", "TotalSlotCpus"))
    # A partitionable slot has what its dynamic slots do not have, and knows the sum.
    static = [ad for ad in slots if ad.get("SlotType") != "Dynamic"]
    free = [ad for ad in static if ad.get("SlotType") == "Partitionable" or ad.get("State") == "Unclaimed"]
    return {
        "cpus_total": float(sum(_cpus(ad, "TotalSlotCpus") for ad in static)),
        "cpus_free": float(sum(_cpus(ad, "Cpus") for ad in free)),
    }


def _cpus(ad: Ad, name: str) -> int:
    value = ad.get(name)
    return value if isinstance(value, int) else 0
