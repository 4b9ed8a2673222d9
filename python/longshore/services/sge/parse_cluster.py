"""Parsers of what Grid Engine's programs print of the cluster: qconf, qstat and qhost (pure functions)."""

from __future__ import annotations

from longshore.batch.jobs import ClusterFacts
from longshore.batch.values import parse_number
from longshore.services.sge.parse import lines_at


def cluster_facts(config: str, complexes: str) -> ClusterFacts:
    """Parse ``qconf -sconf``, and ``qconf -sc`` for the resources that are amounts of memory."""
    joined = config.replace("\\\n", " ")
    values = {name: value.strip() for name, _, value in lines_at(joined, " ")}
    tasks, jobs = values.get("max_aj_tasks", ""), values.get("max_u_jobs", "")
    rows = [line.split() for line in complexes.splitlines() if not line.startswith("#")]
    return ClusterFacts(
        max_array=parse_number(tasks) or None,
        max_jobs=parse_number(jobs) or None,
        accounting="accounting=false" not in values.get("reporting_params", ""),
        byte_resources=tuple(name for row in rows if len(row) > 2 and row[2] == "MEMORY" for name in row[:2]),
    )
