"""A site matches by its limits, partitions, resources and graph; what fails is told with the nearest value."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.config.merge import to_node
from longshore.contract.algorithms import UnmetNeed
from longshore.errors import Origin
from longshore.model.workflow import MIB, Request
from longshore.sites.job_specification import read_job_specification, read_requires
from longshore.sites.limits import read_limits
from longshore.sites.match import JobNeed, RunNeeds, SiteFacts, find_unmet, match_field, match_range, search_graph
from longshore.sites.resource_graph import read_resource_graph

ALGORITHMS = {"match": match_field, "range": match_range}
GRAPH = read_resource_graph(
    {
        "subsystems": {"software": {"stack": "0.5.2"}},
        "with": [
            {"type": "node", "count": 4, "with": [{"type": "core", "count": 16}, {"type": "memory", "size": 64_000}]},
            {
                "type": "node",
                "with": [{"type": "core", "count": 8}, {"type": "gpu", "count": 2}],
                "subsystems": {"io": [{"type": "shm"}]},
            },
        ],
    }
)


def unmet(site: SiteFacts, *requests: Request, requires: Any = (), specification: Any = None) -> list[str]:
    """Return what jobs, requirements and a specification do not find, as one line each."""
    jobs = tuple(JobNeed(label="one", request=request) for request in requests)
    origin = Origin("x")
    needs = RunNeeds(
        jobs=jobs,
        requires=read_requires(to_node(list(requires), origin), ALGORITHMS),
        specification=specification and read_job_specification(to_node(specification, origin), ALGORITHMS),
    )
    return [say(each) for each in find_unmet(site, needs, search_graph, ALGORITHMS)]


def say(each: UnmetNeed) -> str:
    return f"{each.what}: {each.asked} ({each.nearest})"


def test_a_site_of_which_nothing_is_known_matches_any_job() -> None:
    assert unmet(SiteFacts(name="s"), Request(cpus=1000, memory_b=10**15, resources={})) == []


def test_limits_come_first() -> None:
    limits = read_limits(to_node({"cpus": 4, "memory": "1 GiB"}, Origin("s.yaml")))
    site = SiteFacts(name="s", limits=limits, partitions=[{"name": "p", "cpus": 2}])
    assert unmet(site, Request(cpus=8)) == ["'requestCpus' of 'one' in 'limits.cpus': 8 (4)"]


def test_partitions_come_next() -> None:
    site = SiteFacts(name="s", partitions=[{"name": "p", "cpus": 2}, {"name": "q", "cpus": 4}])
    assert unmet(site, Request(cpus=3)) == []
    (line,) = unmet(site, Request(cpus=8))
    assert "the nearest, 'q', lacks cpus of a node (8 asked, 4 there)" in line
    needs = RunNeeds(jobs=(JobNeed(label="one", request=Request(), partitions=("z",)),))
    assert [say(each) for each in find_unmet(site, needs, search_graph, ALGORITHMS)] == [
        "the partition of 'one': z (p, q)"
    ]


def test_requests_that_no_row_with_a_graph_holds() -> None:
    assert unmet(SiteFacts(name="s", resources={"cpus": 4}), Request(cpus=2, memory_b=10**15)) == []


def test_requirements_without_jobs_hold_for_a_node() -> None:
    site = SiteFacts(name="s", graph=GRAPH)
    needs = [{"subsystem": "software", "name": "stack", "range": {"max": "0.5"}}]
    assert unmet(site, requires=needs) == []


def test_a_machine_has_its_resources() -> None:
    site = SiteFacts(name="s", resources={"cpus": 4, "memory": 1024 * MIB})
    assert unmet(site, Request(cpus=4, memory_b=MIB)) == []
    assert unmet(site, Request(cpus=5, memory_b=2048 * MIB, resources={"gpus": 1})) == [
        "'cpus' of 'one' in 'resources': 5 (4)",
        "'memory' of 'one' in 'resources': 2048 MiB (1024 MiB)",
        "'gpus' of 'one' in 'resources': 1 (0)",
    ]


@pytest.mark.parametrize(
    ("request_", "lines"),
    [
        (Request(cpus=16, memory_b=60_000 * MIB), []),
        (Request(cpus=8, resources={"gpus": 2}), []),
        (Request(cpus=17), ["'core' in each 'node': 17 (16)"]),
        (Request(cpus=9, resources={"gpus": 1}), ["'node' with all that each needs: 1 (0)"]),
        (Request(resources={"gpus": 3}), ["'gpu' in all: 3 (2 in all)"]),
        (Request(resources={"fpga": 1}), ["'fpga' in all: 1 (none)"]),
    ],
)
def test_jobs_need_a_node_of_the_graph(request_: Request, lines: list[str]) -> None:
    assert unmet(SiteFacts(name="s", graph=GRAPH), request_) == lines


@pytest.mark.parametrize(
    ("requires", "lines"),
    [
        ([{"subsystem": "software", "name": "stack", "range": {"min": "0.5.1"}}], []),
        (
            [{"subsystem": "software", "name": "stack", "range": {"min": "0.6"}}],
            ["'software stack' of each 'node': min 0.6 (0.5.2)"],
        ),
        (
            [{"subsystem": "software", "name": "stack", "range": {"field": "build", "min": "1"}}],
            ["'software stack' of each 'node': field build, min 1 (another)"],
        ),
        ([{"subsystem": "software", "name": "other"}], ["'software other' of each 'node': any (none)"]),
        ([{"name": "io", "match": {"type": "nvme"}}], ["'io' of each 'node': type nvme (shm)"]),
        ([{"subsystem": "capabilities", "name": "internet"}], []),
        ([{"subsystem": "capabilities", "name": "gpu"}], ["'capabilities gpu' of each 'node': any (none)"]),
    ],
)
def test_requirements_hold_for_nodes(requires: Any, lines: list[str]) -> None:
    site = SiteFacts(name="s", graph=GRAPH, capabilities=("internet",))
    assert unmet(site, requires=requires) == lines
    assert unmet(site, Request(), requires=requires) == lines


def test_requirements_of_a_site_without_a_graph() -> None:
    site = SiteFacts(name="s", partitions=[{"name": "p", "features": ["ssd"]}], capabilities=("internet",))
    assert unmet(site, requires=[{"subsystem": "features", "name": "ssd"}]) == []
    assert unmet(site, requires=[{"subsystem": "capabilities", "name": "internet"}]) == []
    assert unmet(site, requires=[{"subsystem": "software", "name": "x"}]) != []


def test_a_specification_is_matched_with_partitions_too() -> None:
    site = SiteFacts(name="s", partitions=[{"name": "p", "nodes": 2, "cpus": 8, "resources": {"gpus": 1}}])
    node = {"type": "node", "count": 2, "with": [{"type": "core", "count": 8}, {"type": "gpu"}]}
    assert unmet(site, specification={"version": 1, "resources": [node]}) == []
    wide = {**node, "count": 3}
    assert unmet(site, specification={"version": 1, "resources": [wide]}) == [
        "'node' in all: 3 (2 in all)",
        "'core' in all: 24 (16 in all)",
        "'gpu' in all: 3 (2 in all)",
    ]


def test_slots_above_nodes_and_at_the_top() -> None:
    site = SiteFacts(name="s", graph=GRAPH)
    io = {"name": "io", "match": {"type": "shm"}}
    slot = {"type": "slot", "count": 1, "with": [{"type": "node", "with": [{"type": "core", "count": 8}]}]}
    assert unmet(site, specification={"version": 1, "resources": [{**slot, "requires": [io]}]}) == []
    assert unmet(site, specification={"version": 1, "resources": [{**slot, "count": 6}]}) == [
        "'node' in all: 6 (5 in all)"
    ]
    two = {**slot, "count": 2, "requires": [io]}
    assert unmet(site, specification={"version": 1, "resources": [two]}) == ["slot with 1 node: 2 (1)"]
    cores = {"type": "slot", "count": 4, "with": [{"type": "core", "count": 18}]}
    assert unmet(site, specification={"version": 1, "resources": [cores]}) == []
    wrong = {**slot, "requires": [{"name": "io", "match": {"type": "tape"}}]}
    assert unmet(site, specification={"version": 1, "resources": [wrong]}) == ["'io' of the slot: type tape (shm)"]
    deep = {"type": "node", "with": [{"type": "slot", "count": 3, "with": [{"type": "core", "count": 6}]}]}
    assert unmet(site, specification={"version": 1, "resources": [deep]}) == ["slot with 6 core: 3 (2)"]


def test_the_nearest_version_is_told() -> None:
    def site(*versions: str) -> SiteFacts:
        members = [{"name": "stack", "version": each} for each in versions]
        return SiteFacts(name="s", graph=read_resource_graph({"subsystems": {"software": members}}))  # type: ignore[dict-item]

    requires = [{"subsystem": "software", "name": "stack", "range": {"min": "2.0", "max": "2.5"}}]
    assert unmet(site("0.9", "1.9", "1.10", "3.0"), requires=requires)[0].endswith("(1.10)")
    assert unmet(site("4.0", "3.0"), requires=requires)[0].endswith("(3.0)")
    assert unmet(site("banana"), requires=requires)[0].endswith("(banana)")
