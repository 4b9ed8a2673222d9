"""Matches one site with what a run needs: limits, partitions, whole resources, resource graph and subsystems (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, total_ordering
from typing import Final, NamedTuple

import msgspec

from longshore.config.quantities import parse_count
from longshore.contract.algorithms import (
    GraphBackend,
    JobSpecification,
    MatchAlgorithm,
    Metadata,
    Requirement,
    ResourceGraph,
    ResourceNeed,
    UnmetNeed,
    Vertex,
)
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all, quote_value
from longshore.model.workflow import MIB, Allocation, Request
from longshore.sites.job_specification import SLOT
from longshore.sites.limits import SiteLimits, exceeded_limits
from longshore.sites.requests import PartitionRow, choose_partition
from longshore.sites.resource_graph import VertexPool, make_graph

# Semantic versions and inclusive ranges of them.


_VERSION: Final = re.compile(
    r"[vV]?(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]{1,200}))?(?:\+[0-9A-Za-z.-]{1,200})?",
    re.ASCII,
)


@total_ordering
class PreRelease:
    """Order of pre-releases: numbers below words, fewer identifiers below more, none above all."""

    def __init__(self, text: str) -> None:
        self._key = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in text.split(".") if text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PreRelease) and self._key == other._key

    def __lt__(self, other: PreRelease) -> bool:
        if not self._key or not other._key:
            return bool(self._key) and not other._key
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __bool__(self) -> bool:
        return bool(self._key)


class Version(NamedTuple):
    """A semantic version: its written numbers, one to three, and its pre-release."""

    numbers: tuple[int, ...]
    pre_release: PreRelease

    @property
    def full(self) -> tuple[tuple[int, ...], PreRelease]:
        """Numbers filled up with zeros, and the pre-release; they compare as versions do."""
        return (*self.numbers, 0, 0)[:3], self.pre_release


def parse_version(text: str) -> Version | None:
    """Parse a version, with or without ``v``, of one to three numbers; ``None`` for another text."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    return Version(tuple(int(part) for part in found.groups()[:3] if part is not None), PreRelease(found[4] or ""))


def is_in_range(version: Version, least: Version | None, most: Version | None) -> bool:
    """Whether a version lies in a range with its bounds; a maximum of fewer numbers includes all that begin so.

    A pre-release lies in no range, unless a bound is one.
    """
    bounds = [bound for bound in (least, most) if bound is not None]
    if version.pre_release and not any(bound.pre_release for bound in bounds):
        return False
    if least is not None and version.full < least.full:
        return False
    if most is None:
        return True
    if len(most.numbers) < 3 and not most.pre_release and version.full[0][: len(most.numbers)] == most.numbers:
        return True
    return version.full <= most.full


# Algorithms of requirements: ``match`` compares a field exactly, ``range`` compares versions.


_DEFAULT_FIELD: Final = {"match": "type", "range": "version"}


def match_field(options: Mapping[str, YamlValue], metadata: Metadata | None) -> str | None:
    """Compare a field with a text, exactly; only texts are equal.

    Options are ``field`` and ``value``, or ``FIELD: TEXT``. Without any, each member matches.
    """
    field, wanted = _read_match(options)
    if metadata is None or field is None:
        return None
    value = metadata.get(field)
    if isinstance(value, str) and value == wanted:
        return None
    return value if isinstance(value, str) else ""


def match_range(options: Mapping[str, YamlValue], metadata: Metadata | None) -> str | None:
    """Compare a field, ``version`` by default, with a range of semantic versions; bounds are inside.

    Options are ``field``, and ``min``, ``max`` or both.
    """
    _refuse_unknown(options, ("field", "min", "max"), "range")
    least, most = _read_bound(options, "min"), _read_bound(options, "max")
    if least is None and most is None:
        raise ConfigError("a 'range' needs 'min', 'max' or both", hint="For example 'range: {min: \"0.5.1\"}'.")
    field = str(options.get("field", _DEFAULT_FIELD["range"]))
    value = None if metadata is None else metadata.get(field)
    if metadata is None:
        return None
    if not isinstance(value, str):
        return ""
    version = parse_version(value)
    return None if version is not None and is_in_range(version, least, most) else value


def _read_match(options: Mapping[str, YamlValue]) -> tuple[str | None, str]:
    if not options:
        return None, ""
    if "field" in options or "value" in options:
        _refuse_unknown(options, ("field", "value"), "match")
        if "value" not in options:
            raise ConfigError("a 'match' of a field needs a 'value'", hint="For example '{field: type, value: shm}'.")
        return str(options.get("field", _DEFAULT_FIELD["match"])), _text(options["value"], "value")
    if len(options) > 1:
        raise ConfigError(
            f"a 'match' has one field, not {len(options)}: {', '.join(map(quote_value, options))}",
            hint="Write a list: '- type: shm' and '- vendor: acme'.",
        )
    (field, value), *_ = options.items()
    return field, _text(value, field)


def _text(value: YamlValue, key: str) -> str:
    if isinstance(value, str):
        return value
    raise ConfigError(
        f"'{key}' must be text, not {quote_value(value)}", hint="Write quotation marks around it: fields are texts."
    )


def _read_bound(options: Mapping[str, YamlValue], key: str) -> Version | None:
    value = options.get(key)
    if value is None:
        return None
    # A number such as 2024.10 has lost its last digit.
    version = parse_version(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if version is None:
        raise ConfigError(
            f"'{key}' must be a semantic version, not {quote_value(value)}",
            hint=f"For example '{key}: \"0.5.1\"', in quotation marks.",
        )
    return version


def _refuse_unknown(options: Mapping[str, YamlValue], known: tuple[str, ...], algorithm: str) -> None:
    for key in options:
        if key not in known:
            raise ConfigError(
                f"a '{algorithm}' has no key '{key}'",
                hint=did_you_mean(key, known, likeness=NAME_LIKENESS) or name_all(known),
            )


# Backend ``memory``: searches a resource graph in memory (pure). A group matches if the graph has as many distinct
# vertices of its type as it needs, each of which meets all requirements directly and contains enough of everything
# else. Groups are judged one by one, but the quick check sums them up.


_MOST_VALUES: Final = 3
"""Values in one message."""


def search_graph(
    graph: ResourceGraph, request: JobSpecification, algorithms: Mapping[str, MatchAlgorithm]
) -> tuple[UnmetNeed, ...]:
    """Return the needs that a graph does not meet, by a quick check of totals, then by a search."""
    if missing := tuple(check_totals(graph, request)):
        return missing
    search = _Search(algorithms)
    return tuple(unmet for need in request.groups for unmet in search.find_unmet(graph.root, need))


def check_totals(graph: ResourceGraph, request: JobSpecification) -> Iterator[UnmetNeed]:
    """Find the types that the whole graph has too few of."""
    for kind, count in needed_totals(request).items():
        there = graph.totals.get(kind, 0)
        if count > there:
            nearest = f"{there} in all" if there else "none"
            yield UnmetNeed(what=f"'{kind}' in all", asked=str(count), nearest=nearest)


def needed_totals(request: JobSpecification) -> Counter[str]:
    """Return the amount of each type that all groups of a request need."""
    needed: Counter[str] = Counter()
    for need in request.groups:
        _add_totals(needed, need, 1)
    return needed


def _add_totals(needed: Counter[str], need: ResourceNeed, times: int) -> None:
    if need.type != SLOT:
        needed[need.type] += times * need.count
    for child in need.children:
        _add_totals(needed, child, times * need.count)


class _Search:
    """Search of one graph, with the amounts it has found so far."""

    def __init__(self, algorithms: Mapping[str, MatchAlgorithm]) -> None:
        self._algorithms = algorithms
        self._amounts: dict[tuple[int, int], tuple[int, object]] = {}

    def find_unmet(self, root: Vertex, need: ResourceNeed) -> Iterator[UnmetNeed]:
        """Find what a group lacks; nothing if it matches."""
        found = self._amount(root, need)
        if found >= need.count:
            return
        if need.type == SLOT:
            yield from self._explain_slot(root, need, found)
        else:
            yield from self._explain(root, need, found)

    def _amount(self, vertex: Vertex, need: ResourceNeed) -> int:
        """Amount of a need in one copy of a vertex, with itself."""
        key = (id(vertex), id(need))
        if key not in self._amounts:
            find = self._slots if need.type == SLOT else self._members
            # Both stay alive with their amount, so that no other takes their identity.
            self._amounts[key] = find(vertex, need), (vertex, need)
        return self._amounts[key][0]

    def _members(self, vertex: Vertex, need: ResourceNeed) -> int:
        """Amount of members of a need: sizes of plain resources, else distinct vertices."""
        if vertex.type != need.type:
            return self._below(vertex, need)
        if not self._is_met(vertex, need.requires):
            return 0
        if not need.children:
            return vertex.size
        return int(all(self._contained(vertex, child) >= child.count for child in need.children))

    def _slots(self, vertex: Vertex, need: ResourceNeed) -> int:
        """Return the number of slots in a vertex: where it meets the requirements, or its members do."""
        if self._is_met(vertex, need.requires):
            return min(self._amount(vertex, child) // child.count for child in need.children)
        members = [
            msgspec.structs.replace(child, requires=(*child.requires, *need.requires)) for child in need.children
        ]
        at_members = min(self._amount(vertex, child) // child.count for child in members)
        return max(at_members, self._below(vertex, need))

    def _below(self, vertex: Vertex, need: ResourceNeed) -> int:
        return sum(child.count * self._amount(child, need) for child in vertex.children)

    def _contained(self, vertex: Vertex, need: ResourceNeed) -> int:
        return self._amount(vertex, need) if need.type == SLOT else self._below(vertex, need)

    def _is_met(self, vertex: Vertex, requires: Iterable[Requirement]) -> bool:
        return all(self._meets(vertex, each) for each in requires)

    def _meets(self, vertex: Vertex, requirement: Requirement) -> bool:
        check = self._algorithms[requirement.algorithm]
        return any(check(requirement.options, member) is None for member in _members_of(vertex, requirement))

    def _explain(self, root: Vertex, need: ResourceNeed, found: int) -> Iterator[UnmetNeed]:
        """Find what members of a type lack, with the nearest that there is."""
        vertices = [vertex for vertex in _vertices(root) if vertex.type == need.type]
        is_explained = False
        for requirement in need.requires:
            if not any(self._meets(vertex, requirement) for vertex in vertices):
                is_explained = True
                yield self._nearest_member(vertices, requirement, f"each '{need.type}'")
        for child in need.children:
            most = max((self._contained(vertex, child) for vertex in vertices), default=0)
            if most < child.count:
                is_explained = True
                if child.type == SLOT:
                    yield from self._explain_slot(root, child, most)
                else:
                    yield UnmetNeed(
                        what=f"'{child.type}' in each '{need.type}'", asked=str(child.count), nearest=str(most)
                    )
        if not is_explained:
            yield UnmetNeed(what=f"'{need.type}' with all that each needs", asked=str(need.count), nearest=str(found))

    def _explain_slot(self, root: Vertex, need: ResourceNeed, found: int) -> Iterator[UnmetNeed]:
        """Find what a slot lacks."""
        vertices = list(_vertices(root))
        missing = [each for each in need.requires if not any(self._meets(vertex, each) for vertex in vertices)]
        yield from (self._nearest_member(vertices, each, "the slot") for each in missing)
        if not missing:
            content = ", ".join(f"{child.count} {child.type}" for child in need.children)
            yield UnmetNeed(what=f"slot with {content}", asked=str(need.count), nearest=str(found))

    def _nearest_member(self, vertices: Iterable[Vertex], requirement: Requirement, where: str) -> UnmetNeed:
        check = self._algorithms[requirement.algorithm]
        members = [member for vertex in vertices for member in _members_of(vertex, requirement)]
        values = [value for member in members if (value := check(requirement.options, member))]
        asked = ", ".join(f"{key} {value}" for key, value in requirement.options.items()) or "any"
        subject = f"{requirement.subsystem} {requirement.name}".rstrip()
        nearest = nearest_value(values, requirement) or ("another" if members else "none")
        return UnmetNeed(what=f"'{subject}' of {where}", asked=asked, nearest=nearest)


def nearest_value(values: Iterable[str], requirement: Requirement) -> str:
    """Return the value that is nearest to a range, else some of the values; empty for none."""
    known = sorted(set(values))
    versions = {value: version for value in known if (version := parse_version(value))}
    if requirement.algorithm != "range" or not versions:
        return ", ".join(known[:_MOST_VALUES])
    least = parse_version(str(requirement.options.get("min", "")))
    below = [value for value in versions if least is not None and versions[value].full < least.full]
    by_version = partial(sorted, key=lambda value: versions[value].full)
    return str(by_version(below)[-1] if below else by_version(versions)[0])


def _members_of(vertex: Vertex, requirement: Requirement) -> Iterator[Metadata]:
    for member in vertex.subsystems.get(requirement.subsystem, ()):
        if not requirement.name or requirement.name in {member.get("name"), member.get("basename")}:
            yield member


def _vertices(root: Vertex) -> Iterator[Vertex]:
    waiting = [root]
    while waiting:
        vertex = waiting.pop()
        yield vertex
        waiting += reversed(vertex.children)


_UNBOUNDED: Final = 2**40
"""Amount of what a site does not say."""
_TYPES: Final = {"gpus": "gpu"}
"""Type of vertices per resource of a request, where the two differ."""


class JobNeed(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs of one label ask for, and the partitions that they name."""

    label: str
    request: Request
    partitions: tuple[str, ...] = ()


class RunNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of a site: what its jobs ask for, or a job specification, and requirements."""

    jobs: tuple[JobNeed, ...] = ()
    specification: JobSpecification | None = None
    requires: tuple[Requirement, ...] = ()


class SiteFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the profile of a site says of its resources."""

    name: str
    limits: SiteLimits = msgspec.field(default_factory=dict)
    partitions: Sequence[PartitionRow] = ()
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Resources of all jobs, for a site that is one machine."""
    graph: ResourceGraph | None = None
    capabilities: tuple[str, ...] = ()

    @cached_property
    def searched_graph(self) -> ResourceGraph:
        """The graph of the profile, or one that follows from its partitions."""
        graph = self.graph if self.graph is not None else _graph_of_partitions(self)
        return _with_capabilities(graph, self.capabilities) if self.capabilities else graph


def find_unmet(
    site: SiteFacts, needs: RunNeeds, backend: GraphBackend, algorithms: Mapping[str, MatchAlgorithm]
) -> tuple[UnmetNeed, ...]:
    """Return what a run needs and a site does not have; nothing if it matches.

    The first kind of check that fails ends the search: limits, then partitions, then the graph.
    """
    checks = (_exceeded_limits, _missing_partitions, _missing_resources)
    for check in checks:
        if unmet := tuple(check(site, needs)):
            return unmet
    requests = [needs.specification] if needs.specification is not None else []
    requests += _specifications(site, needs)
    unmet = tuple(each for request in requests for each in backend(site.searched_graph, request, algorithms))
    return tuple(dict.fromkeys(unmet))


def _exceeded_limits(site: SiteFacts, needs: RunNeeds) -> Iterator[UnmetNeed]:
    for job in needs.jobs:
        for name, key, asked, limit in exceeded_limits(job.request, site.limits):
            yield UnmetNeed(what=f"'{key}' of '{job.label}' in 'limits.{name}'", asked=asked, nearest=limit.written)


def _missing_partitions(site: SiteFacts, needs: RunNeeds) -> Iterator[UnmetNeed]:
    for job in needs.jobs if site.partitions else ():
        named = {row["name"] for row in site.partitions}
        if unknown := sorted(set(job.partitions) - named):
            yield UnmetNeed(
                what=f"the partition of '{job.label}'", asked=unknown[0], nearest=", ".join(sorted(named)[:3])
            )
            continue
        asked = msgspec.structs.replace(Allocation.of_request(job.request), partitions=job.partitions)
        try:
            choose_partition(site.partitions, asked)
        except ConfigError as error:
            yield UnmetNeed(what=f"a partition for '{job.label}'", asked="one that holds it", nearest=error.message)


def _missing_resources(site: SiteFacts, needs: RunNeeds) -> Iterator[UnmetNeed]:
    """Find requests beyond the resources of a site that is one machine."""
    for job in needs.jobs if site.resources else ():
        for name, amount in job.request.amounts().items():
            there = site.resources.get(name)
            if there is None and name in {"memory", "disk"}:
                continue
            if amount > (there or 0):
                unit = MIB if name in {"memory", "disk"} else 1
                suffix = " MiB" if unit == MIB else ""
                yield UnmetNeed(
                    what=f"'{name}' of '{job.label}' in 'resources'",
                    asked=f"{amount // unit}{suffix}",
                    nearest=f"{(there or 0) // unit}{suffix}",
                )


def _specifications(site: SiteFacts, needs: RunNeeds) -> list[JobSpecification]:
    """Return requests for the graph: one per label, where the profile has a graph; else the requirements alone."""
    kind = _place_type(site)
    if site.graph is None:
        if not needs.requires:
            return []
        return [JobSpecification(groups=(ResourceNeed(type=kind, requires=needs.requires),))]
    requests = [
        JobSpecification(
            groups=(
                ResourceNeed(
                    type=kind, requires=needs.requires, children=tuple(_children(job.request, site.graph, kind))
                ),
            )
        )
        for job in needs.jobs
    ]
    if needs.requires and not requests:
        requests.append(JobSpecification(groups=(ResourceNeed(type=kind, requires=needs.requires),)))
    return requests


def _place_type(site: SiteFacts) -> str:
    """Return the type of the vertices that hold a whole job: nodes, where the graph has any."""
    graph = site.searched_graph
    return "node" if "node" in graph.totals else graph.root.type


def _children(request: Request, graph: ResourceGraph, place: str) -> Iterator[ResourceNeed]:
    """Return what a job needs of one vertex; memory and disk where the graph counts them, in MiB."""
    for name, amount in request.amounts().items():
        kind = {"cpus": "core"}.get(name) or _TYPES.get(name, name)
        if kind == place or (kind in {"core", "memory", "disk"} and kind not in graph.totals):
            continue
        count = -(-amount // MIB) if name in {"memory", "disk"} else amount
        if count > 0:
            yield ResourceNeed(type=kind, count=parse_count(count, name))


def _graph_of_partitions(site: SiteFacts) -> ResourceGraph:
    """Return the graph that follows from partitions, in which what is not said is there."""
    pool = VertexPool()
    rows = site.partitions or [_machine_row(site.resources)]
    nodes: list[tuple[Vertex, int]] = []
    for row in rows:
        below = [(pool.make("core", 1, {}, ()), row.get("cpus") or _UNBOUNDED)]
        below += [
            (pool.make(_TYPES.get(name, name), 1, {}, ()), int(amount))
            for name, amount in (row.get("resources") or {}).items()
            if amount
        ]
        features = tuple({"name": feature, "type": feature} for feature in row.get("features") or ())
        subsystems = {"features": features} if features else {}
        nodes.append((pool.make("node", 1, subsystems, below), row.get("nodes") or _UNBOUNDED))
    return make_graph(pool.make("cluster", 1, {}, nodes))


def _machine_row(resources: Mapping[str, int]) -> PartitionRow:
    """Return the row of a site that is one machine, or of which nothing is known."""
    others = {name: amount for name, amount in resources.items() if name not in {"cpus", "memory", "disk"}}
    row = PartitionRow(name="", resources=others)
    if "cpus" in resources:
        row |= PartitionRow(name="", nodes=1, cpus=resources["cpus"])
    return row


def _with_capabilities(graph: ResourceGraph, names: Sequence[str]) -> ResourceGraph:
    """Return a graph in which each vertex has the capabilities of the site, a subsystem of that name."""
    members = tuple({"name": name, "type": name} for name in names)

    def extended(vertex: Vertex) -> Vertex:
        return msgspec.structs.replace(
            vertex,
            subsystems={**vertex.subsystems, "capabilities": (*vertex.subsystems.get("capabilities", ()), *members)},
            children=tuple(map(extended, vertex.children)),
        )

    return msgspec.structs.replace(graph, root=extended(graph.root), subsystems=graph.subsystems | {"capabilities"})
