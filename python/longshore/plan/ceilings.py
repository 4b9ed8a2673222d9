"""Which ceilings of a site a run exceeds, and which settings of a job contradict each other, with the places of both.

What is judged is what the workload manager is asked for, by whichever words: for the jobs, and for what a service
submits beside them. The words that are to blame are found by leaving each out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.config.merge import LayerRank, Node, map_items
from longshore.config.profile import CONTAINER, DIRECTIVES_KEY, gather_service_settings
from longshore.config.templates import Template
from longshore.contract.capabilities import AllocationReader, OwnJob
from longshore.contract.service import Problem
from longshore.errors import Origin
from longshore.model.values import YamlValue
from longshore.model.wording import count_noun
from longshore.model.workflow import Allocation, Job, JobSettings, Workflow
from longshore.plan.profiles import service_keys, total_asked
from longshore.plan.resolved_run import ResolvedRun
from longshore.sites.limits import SiteLimit, SiteLimits, exceeded_limits

_RESOURCES: Final = "requestResources"
_HINT: Final = "Ask for less, or choose another site."
_PILOT_KEYS: Final = {
    "cpus": ("cpus", "nodes"),
    "perUser.cpus": ("cpus", "nodes"),
    "memory": ("memory", "nodes"),
    "walltime": ("walltime",),
}
"""Keys of a map that describe a job of a service, per limit."""


def exceeded_site_limits(run: ResolvedRun, workflow: Workflow) -> Iterator[Problem]:
    """Yield the problems of jobs that exceed a limit of their site, and of what the service submits beside them."""
    for job in workflow.samples:
        site = job.settings.site or run.configuration.site
        if limits := run.at_site(site).resolved_site.limits:
            yield from _exceeded_by_job(run, job, site, limits)
    if (limits := run.configuration.resolved_site.limits) and isinstance(run.service, AllocationReader):
        yield from _exceeded_by_service(run, run.service, limits)


def _exceeded_by_job(run: ResolvedRun, job: Job, site: str, limits: SiteLimits) -> Iterator[Problem]:
    service, executor = run.service, run.context.settings.get("executor", {})
    written = {key for _, key, _, _ in exceeded_limits(job.settings.request, limits)}
    components: Sequence[Allocation] = (Allocation.of_request(job.settings.request),)
    if isinstance(service, AllocationReader):
        components = service.allocations(job.settings, executor)
    for name, key, asked, limit in exceeded_limits(total_asked(run, components), limits):
        path = "" if key in written else _find_cause(run, job.settings, name, limit)
        source = key if key in written else _key(run, path, _RESOURCES if job.settings.request.resources else "")
        yield Problem(
            message=f"job '{job.name}' asks for {_describe(components, name, asked)} by "
            f"{_words(run, job.settings, path) if path else repr(source)}; {_limit_text(name, limit, site)}",
            job=job.name,
            key=source,
            origin=setting_origin(run, job.settings, path) if path else None,
            hint=_HINT,
        )


def _limit_text(name: str, limit: SiteLimit, site: str) -> str:
    return f"'limits.{name}' of the site '{site}' is {limit.written} ({limit.origin})"


def _describe(components: Sequence[Allocation], name: str, asked: str) -> str:
    """Return an amount in words, with the reason where it is that of whole nodes."""
    whole = [each for each in components if each.whole_nodes]
    if not name.endswith("cpus") or not whole or not asked.isdecimal():
        return asked
    nodes = max(each.most_nodes or each.nodes or 1 for each in whole)
    return f"{'a whole node' if nodes == 1 else f'{nodes} whole nodes'} of {count_noun(int(asked), 'processor')}"


# The words of a job that are to blame.


def _find_cause(run: ResolvedRun, settings: JobSettings, name: str, limit: SiteLimit) -> str:
    """Return the path of the one setting for the service without which a limit holds, or with which alone it does not.

    Empty where several do it together.
    """
    service, executor = run.service, run.context.settings.get("executor", {})
    assert isinstance(service, AllocationReader)

    plain = (Allocation.of_request(settings.request),)

    def exceeds(own: Mapping[str, Any], *, is_plain_enough: bool = True) -> bool:
        changed = msgspec.structs.replace(settings, service_settings=own)
        components = tuple(service.allocations(changed, executor))
        # Of settings that are invalid, a service counts the request.
        is_known = is_plain_enough or components != plain
        return not is_known or any(exceeded_limits(total_asked(run, components), {name: limit}))

    config = run.configuration.config
    of_site = map_items(
        config.node_at("site", settings.site or run.configuration.site, run.service.traits.settings_key)
    )
    return _find_setting(settings.service_settings, of_site, exceeds)


def _find_setting(own: Mapping[str, Any], of_site: Container[str], exceeds: Callable[..., bool]) -> str:
    """Return the path of the setting that is to blame: the last of several, lines before keys, those of a site last."""
    # Without some keys of a site, a service cannot tell what is asked for.
    paths = sorted(_paths(own), key=lambda each: (each[0] not in of_site, _is_line(each[0])))
    nothing: dict[str, Any] = dict.fromkeys(own)
    if exceeds(nothing):
        return ""
    for is_plain_enough in (False, True):
        for path, without, _ in reversed(paths):
            if not exceeds({**own, **without}, is_plain_enough=is_plain_enough or _is_line(path)):
                return str(path)
    alone = (path for path, _, alone in reversed(paths) if exceeds({**nothing, **alone}))
    return str(next(alone, ""))


def _is_line(path: str) -> bool:
    """Whether a path is that of an item of a list."""
    return path.rpartition(".")[2].isdecimal()


def _paths(own: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the path of each setting, what replaces its key so that it is left out, and the key with it alone."""
    for key, value in own.items():
        if isinstance(value, list) and value:
            for number, item in enumerate(value):
                yield f"{key}.{number}", {key: value[:number] + value[number + 1 :]}, {key: [item]}
        elif isinstance(value, Mapping) and value:
            for name, item in value.items():
                rest = {other: kept for other, kept in value.items() if other != name}
                yield f"{key}.{name}", {key: rest}, {key: {name: item}}
        elif value is not None:
            yield key, {key: None}, {key: value}


def _key(run: ResolvedRun, path: str, otherwise: str = "") -> str:
    """Return the key of the configuration for the path of a setting; without one, another key or that of all."""
    traits = run.service.traits
    plain = (DIRECTIVES_KEY, CONTAINER, *traits.job_keys, *traits.job_maps)
    if any(path == each or path.startswith(f"{each}.") for each in plain):
        return path
    return f"{traits.settings_key}.{path}" if path else otherwise or traits.settings_key


def _words(run: ResolvedRun, settings: JobSettings, path: str) -> str:
    """Return a setting in words: its key, and a line as it is written."""
    head, _, number = path.rpartition(".")
    if number.isdecimal() and isinstance(lines := settings.service_settings.get(head), list):
        return f"'{lines[int(number)]}' in '{_key(run, head)}'"
    return f"'{_key(run, path)}'"


def setting_origin(run: ResolvedRun, settings: JobSettings, path: str) -> Origin | None:
    """Return where a setting for the service was written for the jobs of a label; ``None`` if no file has it."""
    keys = service_keys(run.service)
    if keys is None:
        return None
    configuration = run.at_site(settings.site or run.configuration.site)
    scope = configuration.scope(curr_pipetask=settings.label, curr_cluster=settings.label)
    origins = gather_service_settings(configuration.config, scope, keys, _as_written).origins
    head = path.rpartition(".")[0]
    return origins.get(path) or origins.get(head)


def _as_written(_key: str, text: str, origin: Origin) -> Template:
    return Template((text,), origin)


# What a service submits beside the jobs.


def _exceeded_by_service(run: ResolvedRun, service: AllocationReader, limits: SiteLimits) -> Iterator[Problem]:
    settings = run.context.settings.get("executor", {})
    for own in service.own_jobs(settings):
        for name, _, asked, limit in exceeded_limits(total_asked(run, own.components), limits):
            path = _find_own_cause(run, service, own, name, limit)
            yield Problem(
                message=f"{own.name} asks for {_describe(own.components, name, asked)} by "
                f"{_own_words(settings, path)}; {_limit_text(name, limit, run.configuration.site)}",
                origin=run.configuration.user_origin(path, ""),
                hint=_HINT,
            )


def _find_own_cause(run: ResolvedRun, service: AllocationReader, own: OwnJob, name: str, limit: SiteLimit) -> str:
    """Return the path of the key or line by which a job of the service exceeds a limit."""
    settings = run.context.settings.get("executor", {})
    map_key = run.service.traits.settings_key
    section = own.section.removeprefix(f"{map_key}.")

    def exceeds(changed: Mapping[str, Any]) -> bool:
        jobs = service.own_jobs({**settings, **changed})
        components = next((each.components for each in jobs if each.section == own.section), None)
        return components is None or any(exceeded_limits(total_asked(run, components), {name: limit}))

    service_map: Mapping[str, YamlValue] = settings.get(map_key) or {}
    described = service_map.get(section)
    if isinstance(described, Mapping):
        for path, without, _ in _paths({section: described}):
            if not exceeds({map_key: {**service_map, **without}}):
                return f"{map_key}.{path}"
    for path, without, _ in _paths(service_map):
        if not exceeds({map_key: {**service_map, **without}}):
            return f"{map_key}.{path}"
    for path, without, _ in _paths({DIRECTIVES_KEY: settings.get(DIRECTIVES_KEY)}):
        if not exceeds(without):
            return path
    keys = [f"{own.section}.{key}" for key in _PILOT_KEYS[name]]
    return next((key for key in keys if run.configuration.user_origin(key, "")), keys[0])


def _own_words(settings: Mapping[str, Any], path: str) -> str:
    """Return a key in words, and a line as it is written."""
    head, _, number = path.rpartition(".")
    return f"'{settings[head][int(number)]}' in '{head}'" if head == DIRECTIVES_KEY else f"'{path}'"


# Settings that contradict each other.


def contradicting_settings(run: ResolvedRun, workflow: Workflow) -> Iterator[Problem]:
    """Yield the settings of jobs that cannot both hold, where a user wrote both: those of a site yield.

    A raw line in the section of a label replaces what the root has for all labels.
    """
    service = run.service
    if not isinstance(service, AllocationReader):
        return
    executor = run.context.settings.get("executor", {})
    told: set[tuple[int, str]] = set()
    for job in workflow.samples:
        settings = job.settings
        for found in service.contradictions(settings, executor):
            cause = (id(settings.service_settings), f"{found.first} {found.second}")
            places = [setting_origin(run, settings, path) for path in (found.first, found.second)]
            first, second = places
            if cause in told or first is None or second is None or LayerRank.SITE.label in {first.layer, second.layer}:
                continue
            if _overrides(run, settings, found.second, second, first) or (
                _overrides(run, settings, found.first, first, second)
            ):
                continue
            told.add(cause)
            words = [_words(run, settings, path) for path in (found.first, found.second)]
            yield Problem(
                message=f"job '{job.name}': {words[1]} and {words[0]} ({first}) {found.why}",
                job=job.name,
                key=_key(run, found.second),
                origin=second,
                hint="Leave one of them out.",
            )


def _overrides(run: ResolvedRun, settings: JobSettings, path: str, line: Origin, other: Origin) -> bool:
    """Whether a raw line stands in the section of a label, and what it replaces in a weaker one."""
    is_raw = path.rpartition(".")[0] == DIRECTIVES_KEY
    return is_raw and _section_rank(run, settings, line) > _section_rank(run, settings, other)


def _section_rank(run: ResolvedRun, settings: JobSettings, origin: Origin) -> int:
    """Return the strength of the section in which a value was written: that of the cluster, of the label, the root."""
    config = run.at_site(settings.site or run.configuration.site).config
    sections = (("cluster", settings.label), ("pipetask", settings.label), (settings.label,))
    ranks = (rank for rank, path in zip((2, 1, 1), sections, strict=True) if _holds(config.node_at(*path), origin))
    return next(ranks, 0)


def _holds(node: Node | None, origin: Origin) -> bool:
    """Whether a value was written at a place, or below it."""
    value = node.value if node is not None else None
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (node is not None and node.origin == origin) or any(_holds(each, origin) for each in below)
