"""Job specifications, version 1: the forms of resources and of requirements, and what is wrong with others."""

from __future__ import annotations

import pytest
import yaml

from longshore.config.merge import to_node
from longshore.contract.algorithms import JobSpecification, Requirement
from longshore.errors import ConfigError, Origin
from longshore.sites.job_specification import read_job_specification, read_requires
from longshore.sites.match import match_field, match_range

ALGORITHMS = {"match": match_field, "range": match_range}
RESOURCES = "version: 1\nresources: [{type: node, count: 2, with: [{type: slot, label: s, with: [{type: core}]}]}]\n"


def read(text: str) -> JobSpecification:
    return read_job_specification(to_node(yaml.safe_load(text), Origin("request.yaml", 1)), ALGORITHMS)


def slot_requires(task: str) -> list[tuple[str, str, str, dict[str, object]]]:
    """Return the requirements that a task adds to its slot."""
    slot = read(f"{RESOURCES}task: {task}").groups[0].children[0]
    return [(each.subsystem, each.name, each.algorithm, dict(each.options)) for each in slot.requires]


def test_the_three_forms_of_requirements() -> None:
    assert slot_requires("{slot: s, resources: {io: {match: [{type: shm}]}}}") == [("io", "", "match", {"type": "shm"})]
    text = '{slot: s, resources: {io: {match: [{field: type, value: shm}], range: [{field: version, max: "2"}]}}}'
    assert slot_requires(text) == [
        ("io", "", "match", {"field": "type", "value": "shm"}),
        ("io", "", "range", {"field": "version", "max": "2"}),
    ]
    group = '{g: {type: node, replicas: 2, requires: [{name: io, field: type, match: shm}, {name: spack, min: "1"}]}}'
    requires = read(f"version: 1\nresources: {group}").groups[0].requires
    assert [(each.subsystem, each.algorithm, dict(each.options)) for each in requires] == [
        ("io", "match", {"field": "type", "value": "shm"}),
        ("spack", "range", {"min": "1"}),
    ]


def test_both_forms_of_resources() -> None:
    listed = read(RESOURCES).groups
    assert [(need.type, need.count, need.children[0].label) for need in listed] == [("node", 2, "s")]
    named = read("version: 1\nresources: {a: {type: node, replicas: 3, with: [{type: core, count: {min: 4}}]}}").groups
    assert [(need.type, need.count, need.label, need.children[0].count) for need in named] == [("node", 3, "a", 4)]


def test_plain_resources_of_one_type_are_summed_up() -> None:
    (need,) = read("version: 1\nresources: [{type: node, with: [{type: core, count: 2}, {type: core}]}]").groups
    assert [(child.type, child.count) for child in need.children] == [("core", 3)]


def test_two_groups_without_a_label_stay_two() -> None:
    assert len(read("version: 1\nresources: [{type: node}, {type: node, count: 99}]").groups) == 2


def test_parameters_come_from_tasks_and_the_top() -> None:
    text = f"{RESOURCES}attributes: {{parameter: {{a: 1}}}}\ntasks: [{{slot: s, attributes: {{parameter: {{b: x}}}}}}]"
    assert read(text).parameters == {"a": 1.0, "b": "x"}


def test_a_requirement_of_a_member_by_name() -> None:
    node = to_node([{"subsystem": "software", "name": "stack", "range": {"min": "0.5.1"}}], Origin("x"))
    (found,) = read_requires(node, ALGORITHMS)
    assert found.describe() == "software stack (range: min 0.5.1)"
    (found,) = read_requires(to_node([{"subsystem": "software", "name": "stack"}], Origin("x")), ALGORITHMS)
    assert isinstance(found, Requirement)
    assert (found.algorithm, found.options) == ("match", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a job specification must be a map"),
        ("resources: [{type: node}]", "must have 'version: 1'"),
        ("version: 2\nresources: [{type: node}]", "must have 'version: 1'"),
        ("version: 1", "must have 'resources'"),
        ("version: 1\nresources: 3", "'resources' must be a map"),
        ("version: 1\nresources: [3]", "a resource must be a map"),
        ("version: 1\nresources: [{count: 2}]", "a resource must have a 'type'"),
        ("version: 1\nresources: [{type: node, count: 0}]", "'count' must be a whole number of at least 1"),
        ("version: 1\nresources: [{type: node, cuont: 2}]", "has no key 'cuont'"),
        ("version: 1\nresources: [{type: slot}]", "a 'slot' must have 'with'"),
        ("version: 1\nresources: [{type: node, with: 3}]", "'with' must be a list"),
        ("version: 1\nresource: [{type: node}]", "a job specification has no key 'resource'"),
        (f"{RESOURCES}task: 3", "a task must be a map"),
        (f"{RESOURCES}task: {{solt: s}}", "a task has no key 'solt'"),
        (f"{RESOURCES}task: {{slot: t}}", "no slot has the label 't'"),
        (f"{RESOURCES}attributes: {{parameter: {{a: []}}}}", "the parameter 'a' must be a number or a text"),
        (f"{RESOURCES}task: {{resources: {{io: 3}}}}", "must be a map of algorithms"),
        (f"{RESOURCES}task: {{resources: {{io: {{macth: [{{type: shm}}]}}}}}}", "there is no algorithm 'macth'"),
        (f"{RESOURCES}task: {{resources: {{io: {{match: [3]}}}}}}", "options of a requirement must be a map"),
        (f"{RESOURCES}task: {{resources: {{io: {{match: [{{a: x, b: y}}]}}}}}}", "a 'match' has one field, not 2"),
        (f"{RESOURCES}task: {{resources: {{io: {{match: [{{field: x}}]}}}}}}", "needs a 'value'"),
        (f"{RESOURCES}task: {{resources: {{io: {{match: [{{type: 3}}]}}}}}}", "'type' must be text"),
        (f"{RESOURCES}task: {{resources: {{io: {{range: [{{field: x}}]}}}}}}", "needs 'min', 'max' or both"),
        (f"{RESOURCES}task: {{resources: {{io: {{range: [{{min: 2024.10}}]}}}}}}", "must be a semantic version"),
        (f"{RESOURCES}task: {{resources: {{io: {{range: [{{mni: '1'}}]}}}}}}", "a 'range' has no key 'mni'"),
        ("version: 1\nresources: [{type: a, requires: {name: x}}]", "'requires' must be a list"),
        ("version: 1\nresources: [{type: a, requires: [x]}]", "an item of 'requires' must be a map"),
        ("version: 1\nresources: [{type: a, requires: [{}]}]", "a requirement must name a 'subsystem'"),
        ("version: 1\nresources: [{type: a, requires: [{match: x}]}]", "must name a 'subsystem'"),
        ("version: 1\nresources: [{type: a, requires: [{name: io}]}]", "needs 'match', or 'range'"),
        ("version: 1\nresources: [{type: a, requires: [{name: io, field: x}]}]", "needs 'match', or 'range'"),
        ("version: 1\nresources: [{type: a, requires: [{name: io, mathc: x}]}]", "a requirement has no key 'mathc'"),
        ("version: 1\nresources: [{type: a, requires: [{name: io, match: x, min: '1'}]}]", "has one algorithm, not"),
        ("version: 1\nresources: [" + "{type: a, with: [" * 40 + "{type: b}" + "]}" * 40 + "]", "nested more than"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(text)
    assert caught.value.origin is not None
