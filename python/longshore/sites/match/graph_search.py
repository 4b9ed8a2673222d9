"""Backend ``memory``: searches a resource graph in memory (pure).

A group matches if the graph has as many distinct vertices of its type as it needs, each of which meets all requirements
directly and contains enough of everything else. Groups are judged one by one, but the quick check sums them up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from longshore.contract.site_match import (
    JobSpecification,
    MatchAlgorithm,
    Metadata,
    Requirement,
    ResourceGraph,
    ResourceNeed,
    UnmetNeed,
    Vertex,
)
from longshore.sites.match.job_specification import SLOT
from longshore.sites.match.versions import parse_version

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
