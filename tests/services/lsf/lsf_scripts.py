"""Makes scripts of batches for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshore.batch.records import BATCH_TEMPLATE
from longshore.contract.batch import Batch, BatchMember
from longshore.contract.context import RunPaths
from longshore.model.workflow.request import Request
from longshore.services.lsf import batch_script as module

RUN = RunPaths(Path("/data/u/jdoe/run 1"))
TEMPLATE = (Path(module.__file__).parent / "templates" / BATCH_TEMPLATE.name).read_text("utf-8")


def script(
    own: Mapping[str, Any] | None = None,
    *,
    request: Request | None = None,
    site: Mapping[str, Any] | None = None,
    members: int = 1,
    run: RunPaths = RUN,
    **attributes: Any,
) -> str:
    """The script of a batch whose jobs have a map of their own, at a site."""
    batch = Batch(
        id="1",
        tag="k7f3a-1-1",
        request=request or Request(),
        members=tuple(map(_member, range(members))),
        attributes=attributes,
        settings=own or {},
    )
    return module.batch_script(batch, site or {}, run, TEMPLATE)


def _member(job: int) -> BatchMember:
    return BatchMember(
        job=job,
        attempt=1,
        name=f"job{job}",
        command="true",
        environment={},
        working_directory="/data",
        log=f"logs/a/00/job{job}.1.log",
    )
