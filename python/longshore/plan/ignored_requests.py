"""Notes the attributes of jobs that a service ignores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from longshore.contract.context import Problem

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow


def ignored_requests(workflow: Workflow, keys: Iterable[str], service: str) -> Iterator[Problem]:
    """Note the attributes among `keys` that jobs set and a service ignores, in one note for all jobs."""
    keys = tuple(keys)
    said: dict[str, None] = {}
    for settings in (job.settings for job in workflow.samples):
        said |= dict.fromkeys(key for key in keys if key in settings.attributes)
        if not settings.priority and settings.attributes.get("priority") not in {None, 0, "0"}:
            # The order of jobs goes by numbers only.
            said["priority"] = None
    if said:
        words = ", ".join(f"'{key}'" for key in said)
        yield Problem(message=f"{service} ignores {words}", fatal=False)
