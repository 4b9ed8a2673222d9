"""Makes scripts of batches for tests of every batch system, and holds texts against golden files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshore.config.plugins import template_texts
from longshore.contract.executor import Batch, BatchMember, Urgency
from longshore.contract.service import RunPaths
from longshore.model.workflow import Request
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.batch.script_writer import ScriptWriter
from longshore.services.batch.service import BatchService
from longshore.services.batch.settings import own_map

RUN = RunPaths(Path("/data/u/jdoe/run 1"))


def member(job: int, command: str | tuple[str, ...] = "true", *, attempt: int = 1) -> BatchMember:
    """An attempt of a job."""
    return BatchMember(
        job=job,
        attempt=attempt,
        name=f"job{job}",
        command=command,
        environment={},
        working_directory="/data",
        log=f"logs/a/00/job{job}.1.log",
    )


def render_script(
    service: type[BatchService],
    own: Mapping[str, Any] | None = None,
    *,
    request: Request | None = None,
    site: Mapping[str, Any] | None = None,
    members: int = 1,
    run: RunPaths = RUN,
    template: str = "",
    facts: ClusterFacts | None = None,
    urgency: Urgency | None = None,
    **attributes: Any,
) -> str:
    """The script of a batch whose jobs have a map of their own, at a site."""
    batch = Batch(
        id="1",
        tag="k7f3a-1-1",
        request=request or Request(),
        members=tuple(map(member, range(members))),
        attributes=attributes,
        settings=own or {},
        urgency=urgency,
    )
    settings = site or {}
    dialect = service().dialect(own_map(service.name, settings))
    return ScriptWriter(dialect, run, settings, template or template_texts(service)["batch.sh"], facts).text(batch)


def assert_golden(path: Path, text: str) -> None:
    """Hold a text against a golden file, letter by letter.

    ``REGENERATE_GOLDEN=1`` in the environment writes what Longshore makes now, to be looked at before it is committed.
    """
    if os.environ.get("REGENERATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def check_shell(path: Path) -> None:
    """Let the shell parse a script."""
    subprocess.run(["/bin/sh", "-n", path], check=True)
