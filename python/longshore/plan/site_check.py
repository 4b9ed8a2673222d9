"""Check of a site's profile against its workload manager (`longshore site check`), by the code that submit uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec

from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.layers import Layers, read_layers_without_file
from longshore.config.lint import find_keys_without_effect
from longshore.config.merge import LayerRank, Node, drop_paths, map_items
from longshore.config.schema import Finding, Severity, check_schema
from longshore.config.schemas import configuration_schema, profile_schema
from longshore.config.search import Config
from longshore.contract.service import Inventory, PingReport, Problem, RunPaths
from longshore.errors import CodeRefusedError, ConfigError, Origin, UnknownServiceError
from longshore.plan.configuration import Draft, make_draft, site_overrides
from longshore.plan.judgement import judge_site
from longshore.plan.lint import lint_configuration, service_of_keys, unknown_templates
from longshore.plan.ping import hide_in_problem, hide_in_report
from longshore.plan.problems import exit_status
from longshore.plan.resolved_run import service_context
from longshore.sites.profile import SiteProfile, find_limit_problems, find_row_problems
from longshore.sites.profile_files import SiteFile, SitePath
from longshore.sites.requests import PartitionRow
from longshore.sites.site import site_folders, site_profile
from longshore.system.reading import current_directory

_ABOUT_PROFILE: Final = frozenset({"title", "hosts"})
"""Keys that name a profile, and describe nothing of a site."""

_UNUSED_KEY: Final = re.compile(r"'(\w+)\.(\w+)'")
"""Section and key that a note on an unused key names."""


class SiteCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a check: service, answer, problems; `report` is ``None`` where it was not asked.

    An `is_empty` profile describes nothing that could be checked.
    """

    name: str
    service: str
    report: PingReport | None
    problems: tuple[Problem, ...]
    is_empty: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; notes are no errors."""
        return not any(problem.fatal for problem in self.problems)

    @property
    def exit_status(self) -> int:
        """Exit status of the command: that of the other judges of a run."""
        return exit_status(self.problems)


class _CheckedSitePath(SitePath):
    """Search path whose profiles lack the values at some paths, because these are wrong."""

    wrong: tuple[tuple[str, ...], ...] = ()

    def profile(self, file: SiteFile) -> SiteProfile:
        """Read a profile without its wrong values."""
        found = super().profile(file)
        return msgspec.structs.replace(found, root=drop_paths(found.root, self.wrong)) if self.wrong else found


@hidden_secrets()
def check_site(name: str, site_path: Sequence[str] = (), *, now: float) -> SiteCheck:
    """Check the profile of a site: its keys and values, then what the workload manager has.

    A wrong value hides no other error: the rest of the profile is checked without it. Raises `ConfigError` if there is
    no such site or its profile cannot be read, `UsageError` if a directory is missing.
    """
    layers = read_layers_without_file(site_overrides(None, name, site_path), now=now)
    draft, wrong = _draft_without_errors(layers, name)
    if _is_empty(draft):
        return SiteCheck(name=name, service=draft.service, report=None, problems=(_empty_note(draft),), is_empty=True)
    problems = [*map(_as_problem, wrong), *_find_written_errors(draft)]
    problems = sorted({each.message: each for each in problems}.values(), key=_position)
    report: PingReport | None = None
    if ("service",) not in {finding.path for finding in wrong} and _has_site(draft):
        report, others = _find_service_errors(draft)
        problems = _merge_causes(problems, others)
    return SiteCheck(
        name=name,
        service=draft.service,
        report=report and hide_in_report(report),
        problems=tuple(map(hide_in_problem, problems)),
    )


def _draft_without_errors(layers: Layers, name: str) -> tuple[Draft, list[Finding]]:
    """Return the configuration at a site without values that are wrong by themselves, and an error for each."""
    base = Config(layers.stack.root())
    resolved = site_profile(base, name, SitePath(site_folders(base, layers.env), layers.env))
    findings = check_schema(resolved.root, profile_schema()) if resolved else []
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]

    def open_sites(given: Sequence[Path], env: Mapping[str, str]) -> SitePath:
        sites = _CheckedSitePath(given, env)
        sites.wrong = tuple(finding.path for finding in wrong)
        return sites

    draft = make_draft(layers, open_sites=open_sites)
    if draft.site_errors:
        raise draft.site_errors[0]
    return draft, wrong


def _is_empty(draft: Draft) -> bool:
    """Tell whether neither the profile as written nor a section describes anything of the site."""
    if draft.profile is None:
        return not map_items(draft.config.node_at("site", draft.site))
    written = draft.profile.chain[-1].root
    section = map_items(draft.base.node_at("site", draft.site))
    return not (map_items(written).keys() | section.keys()) - _ABOUT_PROFILE


def _empty_note(draft: Draft) -> Problem:
    return Problem(
        message="the profile describes nothing of the site: there is nothing to check",
        origin=draft.profile.chain[-1].root.origin if draft.profile else None,
        hint="Name its workload manager with 'service'; 'longshore site init NAME' writes a profile from its answers.",
        fatal=False,
    )


def _has_site(draft: Draft) -> bool:
    """Tell whether the site can be used as it is described, without values that are wrong."""
    try:
        return bool(draft.resolved_site.name)
    except ConfigError:
        return False


def _find_service_errors(draft: Draft) -> tuple[PingReport | None, list[Problem]]:
    """Return the answer of the workload manager, ``None`` if it could not be asked, and its problems."""
    try:
        service = draft.load_service()
    except (CodeRefusedError, UnknownServiceError) as error:
        return None, [Problem(message=error.message, origin=error.origin, hint=error.hint, code=error.code)]
    context = service_context(draft, service, RunPaths(current_directory()))
    problems = judge_site(draft, service, context)
    if any(problem.code == ConfigError.code and problem.fatal for problem in problems):
        return None, problems
    report = service.ping(context)
    context = msgspec.structs.replace(context, probe=report)
    found: dict[str, Problem] = {}
    for each in _find_answered_errors(draft, report, judge_site(draft, service, context)):
        # The site's own job may have the same fault as a row.
        found.setdefault(each.message, each)
    return report, list(found.values())


def _find_written_errors(draft: Draft) -> Iterator[Problem]:
    """Find errors that need no answer: unknown keys, wrong values, a site that is disabled."""
    for finding in lint_configuration(draft):
        if finding.severity is not Severity.NOTE:
            yield _as_problem(finding)
    yield from map(_as_problem, _find_unused_keys(draft))
    try:
        draft.resolved_site  # noqa: B018 - its resolution raises what is wrong
    except ConfigError as error:
        yield Problem(message=error.message, origin=error.origin, hint=error.hint, code=error.code)


def _find_unused_keys(draft: Draft) -> Iterator[Finding]:
    """Find the keys of the profile, and of the site's section, that its service does not use."""
    service = service_of_keys(draft)
    if service is None:
        return
    service = msgspec.structs.replace(service, whose="site")
    if draft.profile is not None:
        root = draft.profile.root
        yield from find_keys_without_effect(root, profile_schema(), service, layers={LayerRank.SITE.label})
    layers = {LayerRank.SYSTEM.label, LayerRank.USER.label}
    found = find_keys_without_effect(draft.config.root, configuration_schema(), service, layers=layers, site=draft.site)
    yield from (finding for finding in found if finding.path[:1] == ("site",))
    yield from unknown_templates(draft, {LayerRank.SITE.label, *layers})


def _merge_causes(written: Sequence[Problem], others: Sequence[Problem]) -> list[Problem]:
    """Return all problems; where the service refuses a key that is also noted as unused, its error has the place."""
    noted = {key.groups(): each for each in written if not each.fatal and (key := _UNUSED_KEY.search(each.message))}
    merged: dict[tuple[str | None, ...], Problem] = {}
    for each in others:
        quoted = set(re.findall(r"'([^']+)'", each.message))
        if found := next((key for key in noted if each.fatal and quoted.issuperset(key)), None):
            merged[found] = msgspec.structs.replace(each, origin=noted[found].origin)
    kept = [each for each in written if each not in [noted[key] for key in merged]]
    texts = {each.message for each in (*kept, *merged.values())}
    return [*sorted([*kept, *merged.values()], key=_position), *(each for each in others if each.message not in texts)]


def _as_problem(finding: Finding) -> Problem:
    return Problem(
        message=finding.message,
        origin=finding.origin,
        hint=finding.hint,
        fatal=finding.severity is Severity.ERROR,
        code=ConfigError.code,
    )


def _position(problem: Problem) -> tuple[str, int, int]:
    return (problem.origin.file, problem.origin.line, problem.origin.column) if problem.origin else ("", 0, 0)


def _find_answered_errors(draft: Draft, report: PingReport, found: Iterable[Problem]) -> Iterator[Problem]:
    """Find what the workload manager does not have of the profile, each with its place where that is known.

    `found` is the judgement of the site's own job. Beside it, each row and limit is judged by the largest job that it
    promises to hold.
    """
    site = draft.resolved_site
    told = set()
    for problem in found:
        told.add(problem.message)
        origin = problem.origin or _value_origin(draft, problem.message) or site.origin
        hint = problem.hint or f"'longshore ping --compute-site {site.name}' asks again."
        yield msgspec.structs.replace(problem, origin=_value_origin(draft, problem.message) or origin, hint=hint)
    if not report.ok:
        return
    inventory = report.inventory or Inventory()
    rows = cast("Sequence[PartitionRow]", site.settings.get("partitions") or ())
    origins = _row_origins(draft)
    for row in find_row_problems(rows, inventory):
        origin = origins[row.row] if row.row < len(origins) else site.origin
        origin = (_value_origin(draft, row.message) if row.is_name else None) or origin
        if row.message in told:
            # The site's own job would go to that row.
            continue
        yield Problem(message=row.message, hint=row.hint, origin=origin, fatal=row.fatal)
    for name, message, hint in find_limit_problems(site.limits, report.capacity or {}, inventory.max_array):
        yield Problem(message=message, hint=hint, origin=site.limits[name].origin)


def _value_origin(draft: Draft, message: str) -> Origin | None:
    """Return the place in the profile of a name that a message quotes; the last one that the profile has."""
    names = re.findall(r"'([^']+)'", message)
    places = {node.text: node.origin for node in _texts(draft.profile.root if draft.profile else None)}
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
