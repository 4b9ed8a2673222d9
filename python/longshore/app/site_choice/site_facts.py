"""Facts on candidates, from their profiles and sections alone: limits, partitions, resources, graph and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.app.configure.site import combine_limits, site_profile, why_disabled
from longshore.config.merge import Node, map_items, overlay, plain_value
from longshore.config.quantities import parse_pool
from longshore.config.search import Config
from longshore.contract.algorithms import ResourceGraph
from longshore.errors import DECODE_ERRORS, ConfigError
from longshore.model.sites import SiteValue
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.rundir.registry import state_folder
from longshore.sites.match import SiteFacts
from longshore.sites.resource_graph import read_resource_graph
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.reading import read_file, read_record
from longshore.system.room import bound_cache
from longshore.world.read.site_profiles import SitePath
from longshore.world.read.yaml_includes import read_yaml

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
