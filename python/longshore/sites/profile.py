"""A site's profile: its text, its inheritance, its hosts, and the settings that it gives to jobs (pure)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from longshore.config.keys import ALL_BUT_BPS
from longshore.config.merge import Node, drop_deleted_keys, map_items, overlay
from longshore.config.quantities import format_walltime, parse_memory, parse_walltime
from longshore.config.schema import PROFILE_ONLY_KEYS, RENAMED_KEYS
from longshore.config.search import Config
from longshore.config.site_keys import TABLE
from longshore.contract.service import Inventory, NodeGroup, PartitionState, PingReport
from longshore.errors import ConfigError, Origin
from longshore.model.wording import quote_value
from longshore.model.workflow import MIB, Allocation
from longshore.sites.limits import SiteLimits
from longshore.sites.requests import PartitionRow, find_untaken, unknown_name

# Finds the site of a host, by the host patterns of profiles.


def host_matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether a host, with or without its domain, matches a pattern (``login*``, ``*.campus.edu``)."""
    names = {host.lower(), host.lower().partition(".")[0]}
    return any(fnmatchcase(name, pattern.lower()) for name in names for pattern in patterns)


def only_site(host: str, sites: Iterable[tuple[str, str]]) -> str | None:
    """The matching site, given pairs of site and profile file; ``None`` without a match.

    Raises `ConfigError` if there are several.
    """
    found = sorted(sites)
    if len(found) > 1:
        both = " and ".join(f"'{name}' ({path})" for name, path in found)
        raise ConfigError(
            f"the host '{host}' belongs to more than one site: {both}",
            hint=f"Choose one, for example with --compute-site {found[0][0]}.",
        )
    return found[0][0] if found else None


# Shell lines that set up and launch jobs at a site.


_FIND_MODULE = 'command -v module >/dev/null 2>&1 || . "${LMOD_PKG:-${MODULESHOME}}/init/sh"'
"""Only login shells have the command, but Lmod and Environment Modules set the path of its script."""


def setup_lines(site: str, lines: Iterable[str], modules: Iterable[str]) -> tuple[str, ...]:
    """Lines that run in a job before its command; a line that fails ends the job and is named."""
    wanted = [f"module load {shlex.quote(module)}" for module in modules]
    return tuple(_report_failure(site, line) for line in [*([_FIND_MODULE] if wanted else []), *wanted, *lines])


def launch_line(launcher: str, container: str | Sequence[str] | None) -> str:
    """Line of shell in front of a command: the launcher, then the container."""
    inside = container if isinstance(container, str) else shlex.join(map(str, container or ()))
    return " ".join(part for part in (launcher.strip(), inside.strip()) if part)


def _report_failure(site: str, line: str) -> str:
    words = shlex.quote(f"longshore: a set-up line of the site '{site}' failed: {line.strip()}")
    return f"{{ {line}\n}} || {{ echo {words} >&2; exit 126; }}"


# Resolves the settings of a site: its profile, keys at the root, and the user's section for the site.


def site_description(config: Config, site: str, keys: Iterable[str]) -> Node:
    """Settings of a site under the keys of a profile; the user's section for it wins over the root.

    Maps of services are merged key by key, not searched.
    """
    section = config.node_at("site", site)
    items = map_items(section)
    found: dict[str, Node] = {}
    for key in keys:
        root, here = config.node_at(key), items.get(key)
        if root is not None and here is not None:
            found[key] = overlay(root, here)
        elif root is not None or here is not None:
            found[key] = here or root  # type: ignore[assignment]
    return Node(found, section.origin if section else Origin(""))


_EXECUTOR_KEYS: Final = ("account", "qos", "directives", "partitions", "scratch")
"""Keys of a site that an executor may read, beside the service's own map."""


def executor_settings(service_key: str, site: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a site for the executor of any service; a key without a value is left out.

    `service_key` is the key of the service's own map. ``setup`` has the lines of shell before each submission, and
    ``inherit`` the rule which variables jobs inherit.
    """
    found = {key: site[key] for key in (service_key, *_EXECUTOR_KEYS) if site.get(key)}
    if lines := (site.get("setup") or {}).get("submit"):
        found["setup"] = list(lines)
    inherit = site.get("inheritEnvironment", "all")
    return found if inherit == "all" else {**found, "inherit": inherit}


# Resolves the inheritance of a site's profile into a layer of configuration and the operator's limits.


_OWN_KEYS: Final = ("hosts", "title")
"""Keys that are not inherited, because they identify a profile."""


class SiteProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile as written."""

    name: str
    root: Node
    """The profile's keys."""
    personal: bool = False
    """Whether the file lies in a user's directory, not in an operator's."""


class ResolvedSiteProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile merged with all that it inherits."""

    name: str
    root: Node
    """All profiles merged; the keys of the heir win."""
    marked: Node
    """Like `root`, but keys to delete keep their marks, for the layers below."""
    chain: tuple[SiteProfile, ...]
    """The merged profiles, weakest first."""

    def limits(self, *, personal: bool) -> Node | None:
        """Merged ``limits`` of the personal profiles of the chain, or of the others."""
        merged: Node | None = None
        for profile in self.chain:
            node = map_items(profile.root).get("limits")
            if node is not None and profile.personal is personal:
                merged = node if merged is None else overlay(merged, node)
        return drop_deleted_keys(merged) if merged else None


def resolve_profile(profile: SiteProfile, find: Callable[[str, Origin], SiteProfile]) -> ResolvedSiteProfile:
    """Merge a profile with all that it inherits; `find` finds a profile by name and origin, or raises.

    Raises `ConfigError` if it inherits itself, or an unknown profile.
    """
    chain = tuple(_chain(profile, find, ()))
    root = Node({}, profile.root.origin)
    for part in chain:
        kept = {key: node for key, node in map_items(part.root).items() if part is profile or key not in _OWN_KEYS}
        root = overlay(root, Node(kept, part.root.origin))
    return ResolvedSiteProfile(name=profile.name, root=drop_deleted_keys(root), marked=root, chain=chain)


def _chain(
    profile: SiteProfile, find: Callable[[str, Origin], SiteProfile], heirs: tuple[str, ...]
) -> Iterator[SiteProfile]:
    node = map_items(profile.root).get("inherits")
    ring = (*heirs, profile.name)
    for parent in parent_names(node):
        if parent in ring:
            whole = " -> ".join((*ring[ring.index(parent) :], parent))
            raise ConfigError(f"the site '{parent}' inherits itself: {whole}", origin=node.origin if node else None)
        assert node is not None
        yield from _chain(find(parent, node.origin), find, ring)
    yield profile


def parent_names(node: Node | None) -> tuple[str, ...]:
    """Names under ``inherits``, weakest first.

    Raises `ConfigError` if the value is neither a name nor a list of names.
    """
    if node is None or node.value is None:
        return ()
    names = node.value if isinstance(node.value, list) else [node]
    for name in names:
        if not name.has_text or not name.text:
            raise ConfigError(
                f"'inherits' must name a site or a list of sites, not {quote_value(name.value)}", origin=name.origin
            )
    return tuple(name.text for name in names)


def profile_layer(root: Node) -> Node:
    """Layer of configuration from a profile, under the key names of BPS."""
    entries = {
        key: node for key, node in map_items(root).items() if key not in PROFILE_ONLY_KEYS and key not in RENAMED_KEYS
    }
    return Node(rename_keys(root) | entries, root.origin)


def rename_keys(root: Node) -> dict[str, Node]:
    """Keys of a profile or section with another name in BPS, under that name."""
    given = map_items(root)
    return {name: given[key] for key, name in RENAMED_KEYS.items() if key in given and given[key].value is not None}


# Compares the rows and limits of a site's profile with what its cluster has (pure).


class RowProblem(NamedTuple):
    """Row of ``partitions``, by its index, that promises more than the cluster has."""

    row: int
    message: str
    hint: str
    fatal: bool = True
    is_name: bool = False
    """Whether it quotes the name that is wrong."""


def find_row_problems(rows: Sequence[PartitionRow], inventory: Inventory) -> Iterator[RowProblem]:
    """Find partitions of rows that are not there or closed, and what others do not have or take of their rows."""
    partitions = {each.name: each for each in inventory.partitions or ()}
    for index, row in enumerate(rows):
        name = row["name"]
        if (partition := partitions.get(name)) is None:
            if inventory.partitions is None:
                continue
            unknown = unknown_name("partition", name, partitions)
            yield RowProblem(index, unknown.message, unknown.hint, is_name=True)
            continue
        if partition.state != "UP":
            state = partition.state.lower()
            yield RowProblem(
                index, f"the partition '{name}' is {state}", "Jobs wait there until that changes.", fatal=False
            )
        asked = Allocation(account=row.get("account") or "", qos=tuple(filter(None, [row.get("qos")])))
        for unmet in find_untaken(asked, partition, inventory):
            yield RowProblem(index, unmet.message, unmet.hint, is_name=True)
        nodes = [each for each in inventory.nodes or () if each.partition in ("", partition.name)]
        for what, hint in _row_excesses(row, partition, nodes, knows_resources=inventory.knows_resources):
            yield RowProblem(index, f"the row '{row['name']}' of 'partitions' has {what}", hint)


def _row_excesses(
    row: PartitionRow, partition: PartitionState, nodes: Sequence[NodeGroup], *, knows_resources: bool
) -> Iterator[tuple[str, str]]:
    walltime, memory = row.get("walltime"), row.get("memory")
    longest_s = None if walltime is None else parse_walltime(walltime, "partitions.walltime")
    if longest_s is not None and partition.walltime_s is not None and longest_s > partition.walltime_s:
        there = format_walltime(partition.walltime_s // 60 * 60)
        yield f"'walltime' {walltime}, and the partition has {there}", f'Write walltime: "{there}".'
    amounts: list[tuple[str, int | None, list[int | None]]] = [
        ("cpus", row.get("cpus"), [partition.max_cpus, max((each.cpus for each in nodes), default=None)]),
        ("nodes", row.get("nodes"), [partition.max_nodes, sum(each.count for each in nodes) or None]),
    ]
    for key, promised, limits in amounts:
        there_is = min((each for each in limits if each is not None), default=None)
        if promised is not None and there_is is not None and promised > there_is:
            yield f"'{key}' {promised}, and the partition has {there_is}", f"Write {key}: {there_is}."
    memory_b = None if memory is None else parse_memory(memory, "partitions.memory")
    there_b = _largest_memory(partition, nodes)
    if memory_b is not None and there_b is not None and memory_b > there_b:
        yield f"'memory' {memory}, and its nodes have {there_b // MIB} MiB", f"Write memory: {there_b // MIB} MiB."
    yield from _unknown_parts(row, nodes, knows_resources=knows_resources)


def _largest_memory(partition: PartitionState, nodes: Sequence[NodeGroup]) -> int | None:
    """Return the most memory that a job can have on a node of a partition; ``None`` if that is unknown."""
    largest = max((each.memory_b for each in nodes if each.memory_b is not None), default=None)
    return min((each for each in (partition.max_memory_b, largest) if each is not None), default=None)


def _unknown_parts(
    row: PartitionRow, nodes: Sequence[NodeGroup], *, knows_resources: bool
) -> Iterator[tuple[str, str]]:
    """Find resources and features that no node of the partition has."""
    if not nodes:
        return
    features = {feature for each in nodes for feature in each.features}
    for name in row.get("features") or ():
        if name not in features:
            yield f"the feature '{name}', which none of its nodes has", unknown_name("feature", name, features).hint
    counts: dict[str, int] = {}
    for each in nodes:
        for name, amount in each.resources.items():
            counts[name] = max(counts.get(name, 0), amount)
    for name, amount in (row.get("resources") or {}).items() if knows_resources else ():
        there = counts.get("gpus" if name == "gpu" else name, 0)
        if amount > there:
            hint = f"Write {name}: {there}." if there else unknown_name("resource", name, counts).hint
            yield f"{amount} of '{name}', and its nodes have {there}", hint


def find_limit_problems(
    limits: SiteLimits, capacity: Mapping[str, int], max_array: int | None
) -> Iterator[tuple[str, str, str]]:
    """Find ceilings beyond what the cluster has: the name of the limit, a message and the mend."""
    sizes = {"cpus": capacity.get("cpus"), "memory": capacity.get("memory"), "arraySize": max_array}
    for name, there in sizes.items():
        limit = limits.get(name)
        if limit is None or there is None or limit.amount <= there:
            continue
        text = f"{there // MIB} MiB" if name == "memory" else str(there)
        subject = "accepts arrays of" if name == "arraySize" else "has nodes with"
        yield name, f"'limits.{name}' is {limit.written}, and the cluster {subject} {text}", f"Write {name}: {text}."


# Text of a site's profile, from what its workload manager answers (pure).


def profile_text(name: str, report: PingReport, *, own: Mapping[str, Any], hosts: Sequence[str], date: str) -> str:
    """Return a profile in YAML: the service, ceilings, partitions as rows, the account, and the service's own map.

    Parameters
    ----------
    name
        Name of the site.
    report
        The answer of `ping` without a site.
    own
        The service's own map: what its programs need to find the cluster.
    hosts
        Hosts that use the site when no site is named.
    date
        Day of the answer.
    """
    return "\n".join(_lines(name, report, own, hosts, date)) + "\n"


def _lines(name: str, report: PingReport, own: Mapping[str, Any], hosts: Sequence[str], date: str) -> Iterator[str]:
    inventory = report.inventory or Inventory()
    cluster = report.details.get("cluster") or name
    yield f"# Written by 'longshore site init {name}' from the answers of '{report.service}' on {date}. Change it;"
    yield f"# 'longshore site check {name}' compares it with the cluster. doc/reference/site-profiles.md explains"
    yield "# every key."
    yield ""
    yield f"title: {_scalar(f'{cluster}, a site of {report.service}')}"
    yield ""
    yield f"service: {report.service}"
    if hosts:
        yield ""
        yield "# These hosts use the site when no computeSite is given."
        yield f"hosts: {_scalar(list(hosts))}"
    yield ""
    if limits := _limits(report, inventory):
        yield "# Ceilings of one job and of one run. Users can set lower values, never higher ones."
        yield "limits:"
        yield from (f"  {key}: {_scalar(value)}" for key, value in limits.items())
    rows = [_row(partition, inventory) for partition in _sorted_partitions(inventory)]
    if rows:
        yield ""
        yield "# Partitions, preferred ones first. A job goes to the first one that can hold it."
        yield "partitions:"
        yield from (f"  - {_scalar(row)}" for row in rows)
    if account := _only_account(inventory):
        yield ""
        yield "# Account to charge by default; accountingGroup overrides it."
        yield f"account: {_scalar(account)}"
    if own:
        yield ""
        yield f"{report.service}:"
        yield from (f"  {key}: {_scalar(value)}" for key, value in own.items())


def _scalar(value: object) -> str:
    """Return a value as YAML in one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _limits(report: PingReport, inventory: Inventory) -> dict[str, object]:
    """Return ceilings of a job by the largest node, and modest ones of a run."""
    capacity = report.capacity or {}
    limits: dict[str, object] = {}
    if cpus := capacity.get("cpus"):
        limits["cpus"] = cpus
    if memory := capacity.get("memory"):
        limits["memory"] = f"{memory // MIB} MiB"
    walltimes = [each.walltime_s for each in inventory.partitions or ()]
    if walltimes and all(each is not None for each in walltimes):
        limits["walltime"] = format_walltime(max(each or 0 for each in walltimes))
    # Nobody knows what a service of another package uses.
    is_known = report.service in ALL_BUT_BPS
    unused = {
        row.steps[-1] for row in TABLE.below("limits") if is_known and row.users and report.service not in row.users
    }
    if "queued" not in unused:
        limits["queued"] = 2000
    if inventory.max_array and "arraySize" not in unused:
        limits["arraySize"] = min(inventory.max_array, 1000)
    return limits


def _sorted_partitions(inventory: Inventory) -> list[PartitionState]:
    """Return the open partitions: the default first, then those with the shortest run time."""
    return sorted(
        (each for each in inventory.partitions or () if each.state == "UP"),
        key=lambda each: (not each.default, each.walltime_s or float("inf"), each.name),
    )


def _row(partition: PartitionState, inventory: Inventory) -> dict[str, object]:
    """Return the row of a partition, by its largest nodes and its limits."""
    nodes: Sequence[NodeGroup] = [each for each in inventory.nodes or () if each.partition in ("", partition.name)]
    row: dict[str, object] = {"name": partition.name}
    if count := sum(each.count for each in nodes):
        row["nodes"] = min(count, partition.max_nodes or count)
        row["cpus"] = min(max(each.cpus for each in nodes), partition.max_cpus or 10**9)
    if memory := _largest_memory(partition, nodes):
        row["memory"] = f"{memory // MIB} MiB"
    if partition.walltime_s:
        row["walltime"] = format_walltime(partition.walltime_s)
    resources: dict[str, int] = {}
    for each in nodes:
        for name, amount in each.resources.items():
            resources[name] = max(resources.get(name, 0), amount)
    if resources:
        row["resources"] = resources
    if features := sorted({feature for each in nodes for feature in each.features}):
        row["features"] = features
    if partition.default:
        row["default"] = True
    return row


def _only_account(inventory: Inventory) -> str:
    """Return the account of a user who may charge only one; empty for several, where each run names one."""
    accounts = {each.account for each in inventory.accounts or ()}
    return accounts.pop() if len(accounts) == 1 else ""
