"""Ping of an LSF cluster: its queues, the unit of its limits, and which status sources work; submits nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from longshore.batch.commands.client import BatchClient
from longshore.batch.dialect import SHORT_S, ProgramCall
from longshore.batch.settings import own_map
from longshore.contract.context import PingReport
from longshore.services.lsf.options import SERVICE, UNITS, one_of, raw_options
from longshore.services.lsf.parse_jobs import TEXT_FIELDS
from longshore.services.lsf.replies import cluster_facts
from longshore.world.host import user_name

MISSING_INFORMATION: Final = {
    "bjobs": "the state of jobs is unknown, and jobs without an end record are lost",
    "bhist": "the end of a job without a record is unknown once LSF has forgotten it (CLEAN_PERIOD)",
    "bacct": "as for bhist, of jobs whose events bhist no longer has",
}
"""The information that is missing when a source does not work."""
_OPEN: Final = "Open:Active"
"""Status of a queue that takes and starts jobs (bqueues(1))."""


def ping(client: BatchClient, settings: Mapping[str, Any]) -> PingReport:
    """Report on the cluster and on the queues that a site names; `settings` are the executor's, with ``queue``."""
    identity = client.ask(client.dialect.query_call("lsid"))
    if not identity.ok:
        return PingReport(service=SERVICE, ok=False, message=f"LSF does not answer: {identity.why}")
    facts = cluster_facts(identity.out, "")
    details = {"version": facts.version, "cluster": facts.name}
    errors: list[str] = []
    queues = client.ask(client.dialect.query_call("bqueues", "-u", user_name()))
    if queues.ok:
        states = parse_queues(queues.out)
        details["queues"] = ", ".join(f"{name} {state}" for name, state in sorted(states.items())) or "none"
        errors += queue_errors(configured_queues(settings), states)
    else:
        details["queues"] = f"unknown: {queues.why}"
    unit = parse_unit(client.ask(client.dialect.query_call("badmin", "showconf", "mbd")).out)
    assumed = one_of(own_map(SERVICE, settings), "memoryUnit", ("MB", *UNITS))
    details["unit of limits"] = unit or f"unknown; 'lsf.memoryUnit' is {assumed}"
    if unit and unit != assumed:
        errors.append(f"the cluster's LSF_UNIT_FOR_LIMITS is {unit}: set 'lsf.memoryUnit: {unit}', which is {assumed}")
    details |= _check_sources(client)
    return PingReport(
        service=SERVICE, ok=not errors, message="; ".join(errors) or "LSF answers", details=details, capacity=None
    )


def configured_queues(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the queues that a site's settings name: its default, those of its table, and those of raw lines."""
    own = own_map(SERVICE, settings)
    raw = raw_options(settings.get("directives"), own.get("bsub"))
    named = [settings.get("queue"), *(row["name"] for row in settings.get("partitions") or ())]
    named += [words[1] for line in raw if len(words := line.split()) > 1 and words[0] == "-q"]
    return tuple(dict.fromkeys(str(name) for name in named if name))


_ROW: Final = re.compile(r"^(\S+)\s+\S+\s+((?:Open|Closed):\S+)", re.MULTILINE)


def parse_queues(output: str) -> dict[str, str]:
    """Parse ``bqueues``: the status of each queue."""
    return {found[1]: found[2] for found in _ROW.finditer(output)}


def queue_errors(names: tuple[str, ...], states: Mapping[str, str]) -> Iterator[str]:
    """Return the problems of a site's queues."""
    for name in names:
        if name not in states:
            yield f"there is no queue '{name}' for you; there are: {', '.join(sorted(states)) or 'none'}"
        elif states[name] != _OPEN:
            yield f"the queue '{name}' is {states[name]}, and not {_OPEN}"


def parse_unit(output: str) -> str:
    """Parse the unit of limits in ``badmin showconf mbd``; empty without one."""
    found = re.search(r"^\s*LSF_UNIT_FOR_LIMITS\s*=\s*([KMGTkmgt])[Bb]?\b", output, re.MULTILINE)
    return f"{found[1].upper()}B" if found else ""


def _check_sources(client: BatchClient) -> dict[str, str]:
    """Find out which status sources work here."""
    calls = {
        "bjobs": ProgramCall(("bjobs", "-json", "-o", " ".join(TEXT_FIELDS)), timeout_s=SHORT_S),
        "bhist": ProgramCall(("bhist", "-V"), timeout_s=SHORT_S),
        "bacct": ProgramCall(("bacct", "-V"), timeout_s=SHORT_S),
    }
    found = {"records": "left by each job in the run directory, which its nodes must see"}
    for name, call in calls.items():
        answer = client.ask(call)
        found[name] = "works" if answer.ok else f"does not work ({answer.why}): {MISSING_INFORMATION[name]}"
    return found
