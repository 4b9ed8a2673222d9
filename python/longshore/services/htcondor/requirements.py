"""What jobs ask of HTCondor by their requests and their own commands, and which of it no slot of the pool has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from longshore.contract.service import Problem
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, Allocation, Job, JobSettings
from longshore.rundir.registry import state_folder
from longshore.services.batch.answers import BINARY_UNITS, parse_number, parse_size
from longshore.services.htcondor.render.settings import SETTINGS_KEY, CondorJobSettings
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.system.sharing import cached_answer

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


_FRESH_S: Final = 60.0
_REQUIREMENTS: Final = re.compile(r"\s*requirements\s*=\s*(.*)", re.IGNORECASE | re.DOTALL)


class _Unmet(msgspec.Struct, frozen=True):
    """Part of an expression that no slot meets, and the values that slots have for its attributes."""

    part: str
    values: str


def note_unmatched_requirements(jobs: Iterable[Job], client: CondorClient) -> Iterator[Problem]:
    """Note jobs whose requirements no slot of the pool meets: they wait until such a slot joins it.

    Each expression is asked for once with the amounts of a job that it names; answers are shared for a minute by the
    submissions of a user on this host. A text that is no expression is not judged: its submission to the schedd fails.
    """
    asked: dict[tuple[str, tuple[tuple[str, int], ...]], _Unmet | None] = {}
    for job in jobs:
        expression = _requirements(job)
        if not expression or "$(" in expression or not client.is_expression(expression):
            continue
        amounts = _named_amounts(expression, job)
        key = expression, tuple(amounts.items())
        if key not in asked:
            asked[key] = _cached_unmet(expression, amounts, client)
        if (unmet := asked[key]) is not None:
            there = f"Slots have {unmet.values}." if unmet.values else "No slot has its attributes."
            yield Problem(
                message=f"job '{job.name}': no slot of the pool meets its requirements: {unmet.part}",
                hint=f"{there} The job waits until such a slot joins the pool.",
                job=job.name,
                key="nodeset" if job.settings.service_settings.get("nodeset") else SETTINGS_KEY,
                fatal=False,
            )


def _requirements(job: Job) -> str:
    """Return the last requirements in a job's settings; empty without any, or where `check` finds an error."""
    try:
        lines = CondorJobSettings.of(job.settings).lines
    except ConfigError:
        return ""
    found = [match[1].strip() for line in lines if (match := _REQUIREMENTS.fullmatch(line))]
    return found[-1] if found else ""


def _named_amounts(expression: str, job: Job) -> dict[str, int]:
    """Return the amounts of a job that its requirements name, as HTCondor has them."""
    request = job.settings.request
    amounts = {
        "RequestCpus": request.cpus,
        "RequestMemory": (request.memory_b or 0) // MIB,
        "RequestDisk": (request.disk_b or 0) // 1024,
    }
    return {name: amount for name, amount in amounts.items() if name.lower() in expression.lower()}


def _cached_unmet(expression: str, amounts: dict[str, int], client: CondorClient) -> _Unmet | None:
    def query() -> tuple[str | None, str]:
        return msgspec.json.encode(_find_unmet(expression, amounts, client)).decode(), ""

    variables = sorted((name, value) for name, value in os.environ.items() if "CONDOR" in name)
    key = sha256(repr((client.identity, expression, amounts, variables)).encode(errors="surrogateescape")).hexdigest()
    answer = cached_answer(state_folder() / "probes" / f"{key[:32]}.json", max_age_s=_FRESH_S, query=query)
    if answer is None or answer.text is None:
        return None
    return msgspec.json.decode(answer.text, type=_Unmet | None)


def _find_unmet(expression: str, amounts: dict[str, int], client: CondorClient) -> _Unmet | None:
    """Return the part of an expression that no slot meets, the whole where each part is met by some slot."""
    total, matched, _ = client.count_matching_slots(expression, amounts)
    if matched or not total:
        return None
    for part in split_conjunction(expression):
        if not client.is_expression(part):
            continue
        _, matched, values = client.count_matching_slots(part, amounts)
        if not matched:
            return _Unmet(part, values)
    return _Unmet(expression, "")


def split_conjunction(expression: str) -> list[str]:
    """Split an expression at its outermost ``&&``, without the parentheses around the parts."""
    parts, depth, begin, quoted = [], 0, 0, False
    for index, sign in enumerate(expression):
        if sign == '"' and expression[index - 1 : index] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (sign in "([{") - (sign in ")]}")
            if depth == 0 and (sign == "?" or expression.startswith("||", index)):
                # They bind less than a conjunction.
                return [expression.strip()]
            if depth == 0 and expression.startswith("&&", index):
                parts.append(expression[begin:index])
                begin = index + 2
    plain = [part.strip() for part in (*parts, expression[begin:])]
    found: list[str] = []
    for part in plain:
        inner = part[1:-1] if part.startswith("(") and part.endswith(")") and _is_whole(part) else None
        found += split_conjunction(inner) if inner else [part]
    return [part for part in found if part]


def _is_whole(part: str) -> bool:
    """Whether the first parenthesis of a text is closed by its last sign."""
    depth = 0
    for index, sign in enumerate(part):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return index == len(part) - 1
    return False
