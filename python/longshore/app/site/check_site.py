"""Check of a site's profile against its workload manager (`longshore site check`), by the code that submit uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from longshore.app.configure.configuration import Draft
from longshore.app.configure.layers import current_directory
from longshore.app.configure.lint import lint_configuration
from longshore.app.configure.ping import draft_at_site
from longshore.app.configure.resolved_run import service_context
from longshore.app.configure.service_lookup import find_service
from longshore.config.lint.schema_check import Severity
from longshore.config.values.merge import Node, map_items
from longshore.contract.context import PingReport, Problem, RunPaths
from longshore.contract.inventory import Inventory
from longshore.errors import ConfigError
from longshore.model.tasks.dag import Dag
from longshore.model.workflow.workflow import Workflow
from longshore.origin import Origin
from longshore.sites.partitions import PartitionRow
from longshore.sites.profile_check import find_limit_problems, find_row_problems


@dataclass(frozen=True, kw_only=True)
class SiteCheck:
    """Result of a check: the service, its answer, and what is wrong; `report` is ``None`` where it was not asked."""

    name: str
    service: str
    report: PingReport | None
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; notes are no errors."""
        return not any(problem.fatal for problem in self.problems)


def check_site(name: str, site_path: Sequence[str] = (), *, now: float) -> SiteCheck:
    """Check the profile of a site: its keys and values, then what the workload manager has.

    Raises `ConfigError` if there is no such site, `UsageError` if a directory is missing.
    """
    draft = draft_at_site(None, path=None, site=name, site_path=site_path, now=now)
    written = [*_find_written_errors(draft)]
    if any(problem.fatal for problem in written):
        return SiteCheck(name=name, service=draft.service, report=None, problems=tuple(written))
    service = find_service(draft.service, origin=draft.service_origin)
    context = service_context(draft, service, RunPaths(current_directory()))
    problems = [*written, *service.check(Workflow("check", Dag(())), context)]
    if any(problem.fatal for problem in problems):
        return SiteCheck(name=name, service=service.name, report=None, problems=tuple(problems))
    report = service.ping(context)
    problems += _find_answered_errors(draft, report)
    return SiteCheck(name=name, service=service.name, report=report, problems=tuple(problems))


def _find_written_errors(draft: Draft) -> Iterator[Problem]:
    """Find errors that need no answer: unknown keys, wrong values, a site that is disabled."""
    for finding in lint_configuration(draft):
        if finding.severity is not Severity.NOTE:
            yield Problem(
                message=finding.message,
                origin=finding.origin,
                hint=finding.hint,
                fatal=finding.severity is Severity.ERROR,
            )
    try:
        draft.resolved_site  # noqa: B018 - its resolution raises what is wrong
    except ConfigError as error:
        yield Problem(message=error.message, origin=error.origin, hint=error.hint)


def _find_answered_errors(draft: Draft, report: PingReport) -> Iterator[Problem]:
    """Find what the workload manager does not have of the profile, each with its place where that is known."""
    site = draft.resolved_site
    if not report.ok and not report.problems:
        hint = f"'longshore ping --compute-site {site.name}' asks again."
        yield Problem(message=report.message, origin=site.origin, hint=hint)
        return
    for problem in report.problems:
        # Only jobs that use it cannot run, but the profile is wrong.
        origin = problem.origin or _value_origin(draft, problem.message) or site.origin
        yield msgspec.structs.replace(problem, fatal=True, origin=origin)
    inventory = report.inventory or Inventory()
    rows = cast("Sequence[PartitionRow]", site.settings.get("partitions") or ())
    origins = _row_origins(draft)
    for row in find_row_problems(rows, inventory):
        origin = origins[row.row] if row.row < len(origins) else site.origin
        yield Problem(message=row.message, hint=row.hint, origin=origin)
    for name, message, hint in find_limit_problems(site.limits, report.capacity or {}, inventory.max_array):
        yield Problem(message=message, hint=hint, origin=site.limits[name].origin)


def _value_origin(draft: Draft, message: str) -> Origin | None:
    """Return the place in the profile of a name that a message quotes; the last one that the profile has."""
    names = re.findall(r"'([^']+)'", message)
    places = {str(node.value): node.origin for node in _texts(draft.profile.root if draft.profile else None)}
    return next((places[name] for name in reversed(names) if name in places), None)


def _texts(node: Node | None) -> Iterator[Node]:
    """Iterate over the plain values below a node."""
    below = node.value if node is not None else None
    if isinstance(below, dict | list):
        for each in below.values() if isinstance(below, dict) else below:
            yield from _texts(each)
    elif node is not None and below is not None:
        yield node


def _row_origins(draft: Draft) -> list[Origin]:
    """Return the place of each row of the table."""
    node: Node | None = map_items(draft.config.root).get("partitions")
    return [row.origin for row in node.value] if node is not None and isinstance(node.value, list) else []
