"""What a job asks of Grid Engine, by its request and by lines of options, which win (pure functions)."""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

from longshore.batch.scripts.job_spec import JobSpec
from longshore.batch.scripts.lines import text_lines
from longshore.batch.values import parse_number
from longshore.model.workflow.allocation import Allocation
from longshore.services.sge.options import memory_per, slots_environment
from longshore.services.sge.parse import parse_bytes, parse_seconds, requested

_RESOURCE_KEYS: Final = ("cpu_resource", "mem_resource", "tmp_resource")


def allocation(job: JobSpec) -> Allocation:
    """Return what jobs ask for; options behind ``-soft`` are wishes, and do not count."""
    own, request = job.own, job.batch.request
    lines = "\n".join((*text_lines(own.get("hard")), *job.raw))
    text = re.sub(r"(?s)(?:^|\s)-soft\b.*?(?=\s-hard\b|$)", "", lines).replace('"', "").replace("'", "")
    asked = {name: str(amount) for name, amount in request.resources.items()} | requested(text)
    found = Allocation.of_request(request)
    queues = re.findall(r"(?:^|\s)-q\s+(\S+)", text) or [str(job.batch.attributes.get("queue") or "")]
    # Of a range of slots, the largest counts.
    ranges = re.findall(r"(?:^|\s)-pe\s+\S+\s+(\S+)", text)
    slots = max(map(int, re.findall(r"\d{1,9}", ranges[-1])), default=0) if ranges else 0
    cpus = slots or parse_number(asked.get(str(own.get("cpu_resource")), "")) or found.cpus_per_task
    nodes, _, environment = slots_environment(own, cpus)
    size, disk = (parse_bytes(asked.get(str(own.get(key)), "")) for key in ("mem_resource", "tmp_resource"))
    per_slot = slots or (cpus if environment else 1)
    names = {
        "resource": tuple(asked.keys() | {str(own[key]) for key in _RESOURCE_KEYS if own.get(key)}),
        "parallel environment": tuple(re.findall(r"(?:^|\s)-pe\s+(\S+)", text) or filter(None, (environment,))),
        "project": tuple(re.findall(r"(?:^|\s)-P\s+(\S+)", text)[-1:]),
    }
    account = str(job.batch.attributes.get("accountingGroup") or "")
    limit_s = parse_seconds(asked["h_rt"]) if "h_rt" in asked else math.inf
    return msgspec.structs.replace(
        found,
        nodes=nodes if nodes > 1 else None,
        cpus_per_task=cpus,
        memory_b=size * (per_slot if memory_per(own) == "slot" else 1) or found.memory_b,
        disk_b=disk or found.disk_b,
        walltime_s=found.walltime_s if limit_s == math.inf else limit_s,
        # A queue may be that of some hosts: all.q@@fast.
        partitions=tuple(name for queue in queues[-1].split(",") if (name := queue.partition("@")[0])),
        names={**names, "project": names["project"] or tuple(filter(None, (account,)))},
    )
