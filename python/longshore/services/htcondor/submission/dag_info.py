"""Writes what BPS's HTCondor plug-in keeps of a submission, so that ``bps`` finds DAGMan's job: ``*.info.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from longshore.services.htcondor.schedd.client import DagmanJob
from longshore.system.atomic import write_atomically


def write_dag_info(path: Path, dagman: DagmanJob, attributes: Mapping[str, str], *, below: Path) -> None:
    """Write the ids of DAGMan's job and the attributes of the run; raises `OSError` if that fails."""
    ad = {"ClusterId": dagman.cluster, "GlobalJobId": dagman.global_id, **attributes}
    content = {dagman.schedd: {f"{dagman.cluster}.0": ad}}
    write_atomically(path, msgspec.json.encode(content), below=below)
