"""What is known of candidate sites: settings of their selection, and facts from profiles, sections and ended runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.config.includes import read_yaml
from longshore.config.merge import Node, map_items, overlay, plain_map, plain_value
from longshore.config.plugins import SITE_GRAPHS, SITE_MATCH, SITE_SELECTION, all_plugins, find_plugin
from longshore.config.quantities import parse_count, parse_pool, parse_walltime
from longshore.config.search import Config
from longshore.contract.algorithms import (
    GraphBackend,
    JobSpecification,
    MatchAlgorithm,
    Requirement,
    ResourceGraph,
    SelectionAlgorithm,
    SelectionSettings,
)
from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, ConfigError, FilesError, Origin
from longshore.model.sites import SiteValue
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all, quote_value
from longshore.rundir.histories import read_site_states, withdraw_claims
from longshore.rundir.registry import read_entry, state_folder
from longshore.rundir.run_directory import read_snapshot
from longshore.sites.job_specification import read_job_specification, read_requires
from longshore.sites.match import SiteFacts
from longshore.sites.profile_files import SitePath
from longshore.sites.resource_graph import read_resource_graph
from longshore.sites.site import combine_limits, site_profile, why_disabled
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.reading import read_file, read_record
from longshore.system.room import bound_cache

# Settings of the choice of a site: ``siteSelection``, and the algorithms that its keys name.


SECTION: Final = "siteSelection"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("match", "select", "probe"),
    "match": ("requires", "jobSpecification", "graph"),
    "probe": ("timeout", "stale"),
}


class ChoiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a choice; `options` has all keys of ``siteSelection.select``."""

    requires: tuple[Requirement, ...] = ()
    specification: JobSpecification | None = None
    backend: GraphBackend
    algorithms: Mapping[str, MatchAlgorithm]
    name: str = "first"
    select: SelectionAlgorithm
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    seed: int | None = None
    timeout_s: float = 5.0
    stale_s: float = 60.0


def read_choice_settings(config: Config, folder: Path) -> ChoiceSettings:
    """Read ``siteSelection``; files are looked up beside the user's file, in `folder`.

    Raises `ConfigError` if a key, an algorithm or a value is wrong.
    """
    section = config.node_at(SECTION)
    parts = _parts(section)
    algorithms = {name: _load(SITE_MATCH, name, "algorithm for requirements", None) for name in all_plugins(SITE_MATCH)}
    match, select, probe = (map_items(parts.get(key)) for key in ("match", "select", "probe"))
    chosen = select.get("name")
    name = chosen.text if chosen is not None and chosen.value else "first"
    graph = match.get("graph")
    seed = select.get("seed")
    settings = ChoiceSettings(
        requires=read_requires(match["requires"], algorithms) if "requires" in match else (),
        specification=_read_specification(match.get("jobSpecification"), folder, algorithms),
        backend=_load(
            SITE_GRAPHS, graph.text if graph else "memory", "backend of graphs", graph.origin if graph else None
        ),
        algorithms=algorithms,
        name=name,
        select=_load(SITE_SELECTION, name, "algorithm of selection", chosen.origin if chosen else None),
        options=plain_map(parts.get("select")),
        seed=None if seed is None or seed.value is None else parse_count(plain_value(seed), "seed", seed.origin),
        timeout_s=_seconds(probe.get("timeout"), "timeout", 5.0),
        stale_s=_seconds(probe.get("stale"), "stale", 60.0),
    )
    try:
        # Options are checked before any site is asked.
        settings.select((), SelectionSettings(options=settings.options))
    except ConfigError as error:
        origin = error.origin or (parts["select"].origin if "select" in parts else None)
        raise ConfigError(error.message, origin=origin, hint=error.hint) from None
    return settings


def _parts(section: Node | None) -> Mapping[str, Node]:
    """Return the maps of ``siteSelection``; raises `ConfigError` for another value or an unknown key."""
    if section is None or section.value is None:
        return {}
    for path, node in (("", section), *((key, map_items(section).get(key)) for key in ("match", "select", "probe"))):
        if node is None or node.value is None:
            continue
        name = f"{SECTION}.{path}".rstrip(".")
        if not isinstance(node.value, dict):
            raise ConfigError(f"'{name}' must be a map", origin=node.origin)
        known = _KEYS.get(path)
        for key, item in node.value.items() if known else ():
            assert known is not None
            if key not in known:
                hint = did_you_mean(key, known, likeness=NAME_LIKENESS) or name_all(known)
                raise ConfigError(f"'{name}' has no key '{key}'", origin=item.origin, hint=hint)
    return map_items(section)


def _load(group: str, name: str, what: str, origin: Origin | None) -> Any:
    plugin = find_plugin(group, name)
    names = sorted(all_plugins(group)) if plugin is None else []
    if plugin is None:
        hint = f"{did_you_mean(name, names, likeness=NAME_LIKENESS)} {name_all(names)}"
        raise ConfigError(f"there is no {what} '{name}'", origin=origin, hint=hint.strip())
    try:
        found: Callable[..., Any] = plugin.load()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"the {what} '{name}' cannot be loaded: {error}", origin=origin) from error
    return found


def _read_specification(
    node: Node | None, folder: Path, algorithms: Mapping[str, MatchAlgorithm]
) -> JobSpecification | None:
    """Read a job specification, in place or from the file that is named."""
    if node is None or node.value is None:
        return None
    if isinstance(node.value, dict):
        return read_job_specification(node, algorithms)
    if not isinstance(node.value, str):
        raise ConfigError("'jobSpecification' must be a map or the name of a file", origin=node.origin)
    return read_job_specification(read_yaml(folder / Path(node.value).expanduser()), algorithms)


def _seconds(node: Node | None, key: str, default: float) -> float:
    if node is None or node.value is None:
        return default
    return parse_walltime(plain_value(node), f"{SECTION}.probe.{key}", node.origin)


# Facts on candidates, from their profiles and sections alone: limits, partitions, resources, graph and state.


GRAPH: Final = "resourceGraph"
_MOST_GRAPHS: Final = 4000
"""Small graphs that are kept: more than the sites of any search path that is known."""
_FILE_KEYS: Final = frozenset({"file", "subsystemFiles"})


class KnownCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Candidate: its facts and the state of its profile, or why it cannot be used."""

    name: str
    facts: SiteFacts | None = None
    state: Mapping[str, SiteValue] = msgspec.field(default_factory=dict)
    left_out: str = ""


def read_candidate(name: str, base: Config, sites: SitePath) -> KnownCandidate:
    """Read the facts of a site; an error in its profile leaves the site out."""
    try:
        return _read(name, base, sites)
    except ConfigError as error:
        place = f"{error.origin}: " if error.origin else ""
        return KnownCandidate(name=name, left_out=f"{place}{error.message}")


def _read(name: str, base: Config, sites: SitePath) -> KnownCandidate:
    resolved = site_profile(base, name, sites)
    section = base.node_at("site", name)
    if (reason := why_disabled(resolved, section)) is not None:
        return KnownCandidate(name=name, left_out=f"disabled: {reason.value}")
    root = resolved.root if resolved else Node({}, section.origin if section else base.root.origin)
    if section is not None and isinstance(section.value, dict):
        root = overlay(root, section)
    keys = map_items(root)
    limits, _ = combine_limits(resolved, map_items(section).get("limits"), name)
    pool = parse_pool(keys["resources"]) if "resources" in keys else {}
    capabilities = keys.get("capabilities")
    facts = SiteFacts(
        name=name,
        limits=limits,
        partitions=_rows(keys.get("partitions")),
        resources={key: amount if isinstance(amount, int) else len(amount) for key, amount in pool.items()},
        graph=_read_graph(keys.get(GRAPH)),
        capabilities=tuple(map(str, plain_value(capabilities) or ())) if capabilities else (),  # type: ignore[arg-type]
    )
    return KnownCandidate(name=name, facts=facts, state=read_profile_state(keys.get("siteState")))


def _rows(node: Node | None) -> list[Any]:
    if node is None or node.value is None:
        return []
    rows = plain_value(node)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.get("name") for row in rows):
        raise ConfigError("'partitions' must be a list of maps with 'name'", origin=node.origin)
    return rows


def read_profile_state(node: Node | None) -> dict[str, SiteValue]:
    """Read ``siteState`` of a profile: numbers and texts by name."""
    found: dict[str, SiteValue] = {}
    for name, item in map_items(node).items():
        if isinstance(item.value, bool) or not isinstance(item.value, int | float | str):
            raise ConfigError(
                f"'siteState.{name}' must be a number or a text, not {quote_value(plain_value(item))}",
                origin=item.origin,
            )
        value = item.value if isinstance(item.value, str) else float(item.value)
        found[name] = SiteValue(value=value, at=None, by="profile")
    return found


def _read_graph(node: Node | None) -> ResourceGraph | None:
    """Read ``resourceGraph``: a graph in place, or the files of one, relative to the profile."""
    if node is None or node.value is None:
        return None
    folder = Path(node.origin.file).parent
    try:
        value = plain_value(node)
        if isinstance(value, str):
            return _read_files(folder / Path(value).expanduser(), {})
        if isinstance(value, dict) and "file" in value and value.keys() <= _FILE_KEYS:
            written = value.get("subsystemFiles") or {}
            others = written.items() if isinstance(written, dict) else ()
            files = {name: folder / Path(str(file)).expanduser() for name, file in others}
            return _read_files(folder / Path(str(value["file"])).expanduser(), files)
        return read_resource_graph(value)
    except ConfigError as error:
        raise ConfigError(error.message, origin=error.origin or node.origin, hint=error.hint) from None


def _read_files(path: Path, others: Mapping[str, Path]) -> ResourceGraph:
    """Read a graph and those of its subsystems; a graph that was read before, and has not changed, is kept small."""
    kept = _cache_path([("", path), *sorted(others.items())])
    if kept is not None and (found := read_record(kept, ResourceGraph)) is not None:
        return found
    graph = read_resource_graph(_read_file(path), {name: _read_file(file) for name, file in others.items()})
    if kept is not None:
        with suppress(OSError):
            make_folders(kept.parent)
            bound_cache(kept.parent, most=_MOST_GRAPHS)
            write_atomically(kept, msgspec.json.encode(graph))
    return graph


def _cache_path(files: Sequence[tuple[str, Path]]) -> Path | None:
    """Return the path of the small graph of files as they are now; ``None`` if one of them is missing."""
    try:
        stats = [(name, str(path.resolve()), (at := path.stat()).st_mtime_ns, at.st_size) for name, path in files]
    except OSError:
        return None
    return state_folder() / "graphs" / f"{sha256(repr(stats).encode(errors='surrogateescape')).hexdigest()[:32]}.json"


def _read_file(path: Path) -> YamlValue:
    if path.suffix != ".json":
        return plain_value(read_yaml(path))
    try:
        found: YamlValue = msgspec.json.decode(read_file(path))
    except (OSError, *DECODE_ERRORS) as error:
        raise ConfigError(f"the resource graph '{path}' cannot be read: {error}") from None
    return found


# Ended runs no longer count at their sites: what they took is free again.


def withdraw_ended_runs(names: Iterable[str]) -> None:
    """Withdraw the claims of runs that ended.

    Only files of the runs are read, and no workload manager is asked. A run whose files do not tell its end counts for
    a day.
    """
    for name, state in read_site_states(names).items():
        ended = {claim.run for claim in state.claims if _has_ended(claim.run)} if state.claims else set()
        if ended:
            # A choice goes on without it: the claims end by themselves.
            with suppress(FilesError):
                withdraw_claims(name, ended)


def _has_ended(run: str) -> bool:
    entry = read_entry(run)
    if entry is None:
        return False
    snapshot = read_snapshot(RunPaths(Path(entry.path)))
    return (
        snapshot.finished if snapshot is not None else entry.report is not None and entry.report.finished_at is not None
    )
