"""Everything wrong with a configuration is said at once, in the order of the file, in words of our own."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.config.merge import LayerRank, make_layer, merge_layers
from longshore.config.schema import Finding, Severity, check_schema
from longshore.config.schemas import configuration_schema
from longshore.config.yaml_text import parse_yaml

SCHEMA: dict[str, Any] = configuration_schema()
KNOWN: Final = sorted(
    {*SCHEMA["properties"], *(key for part in SCHEMA["$defs"].values() for key in part.get("properties", ()))}
)


def findings_of(text: str, rank: LayerRank = LayerRank.FILE) -> list[Finding]:
    return check_schema(parse_yaml(text, "f.yaml", rank=rank), SCHEMA)


def said(text: str) -> list[str]:
    return [f"{finding.origin}: {finding.severity}: {finding.message}" for finding in findings_of(text)]


def test_nothing_to_say() -> None:
    text = """
        mine: {anything: [1, 2]}
        payload: {payloadName: x, dataQuery: 'visit = {visit}', visit: 5}
        pipetask: {isr: {requestMemory: '{mem}', requestCpus: 2}, flat: x}
        cluster: {c: {pipetasks: 'a, b', requestWalltime: 1:30:00, partitionMaxSize: null}}
        site: {s: {queue: long, slurm: {partition: x}}}
        requestMemory: 'bpsEval(max, [1, 2])'
        retryUnlessExit: [1, 2]
        runQuantumCommand: [echo, 1]
        resources: {cpus: 3.5, licence: 2}
    """
    assert findings_of(text) == []


def test_an_unquoted_placeholder_is_shown_as_written_with_the_way_to_quote_it() -> None:
    found = findings_of("requestMemory: {mem}\nenvironment: {SEED: {seed}}\nrequestCpus: {a: 1}\n")
    assert [finding.message.partition(", not ")[2] for finding in found] == ["'{mem}'", "'{seed}'", "'{'a': 1}'"]
    assert [finding.hint for finding in found[:2]] == [
        "Quote it: '{mem}'. Without quotation marks a brace opens a map.",
        "Quote it: '{seed}'. Without quotation marks a brace opens a map.",
    ]


def test_all_at_once_and_in_order() -> None:
    text = (
        "pipetask:\n  isr:\n    requestCpus: two\n    retryUnlessExit: [1, many]\nrequestMemory: -5\n"
        "makeIdLink: [1]\nfinalJob: {whenRun: SOMETIMES}\ncluster: 3\nnumberOfRetries: 1.5\nrequestDisk: lots\n"
    )
    assert said(text) == [
        "f.yaml:3:18: error: 'pipetask.isr.requestCpus' cannot be 'two'",
        "f.yaml:4:26: error: 'pipetask.isr.retryUnlessExit.1' must be a whole number, not 'many'",
        "f.yaml:5:16: error: 'requestMemory' must be at least 0, not '-5'",
        "f.yaml:6:13: error: 'makeIdLink' must be true or false or text, not '[1]'",
        "f.yaml:7:21: error: 'finalJob.whenRun' must be one of ALWAYS, SUCCESS, NEVER, not 'SOMETIMES'",
        "f.yaml:8:10: error: 'cluster' must be a map, not '3'",
        "f.yaml:9:18: error: 'numberOfRetries' must be a whole number or text, not '1.5'",
        "f.yaml:10:14: error: 'requestDisk' cannot be 'lots'",
    ]


def test_the_hint_says_what_the_key_is() -> None:
    assert findings_of("requestMemory: lots")[0].hint == "Memory of a job, in MB or with a unit."


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("retryUnlessExit: 256", "Exit codes after which a job is not retried; null is none."),
        (
            "pipetask: {isr: {retryUnlessExit: [1, 999]}}",
            "Exit codes after which a job is not retried; null is none.",
        ),
        (
            "environment: {A: [1]}",
            "Environment variables of a job, beside those it inherits",
        ),
        ("finalJob: {command2: [x]}", "The job that runs after all others, with its values."),
        ("customJob: {inputs: {a: {b: c}}}", "Path of each input file, by name."),
    ],
)
def test_a_part_of_a_value_has_the_hint_of_the_whole(text: str, hint: str) -> None:
    (finding,) = findings_of(text)
    assert finding.hint.startswith(hint)


def test_a_key_that_a_closed_map_does_not_have_is_named() -> None:
    first, second = findings_of("site: {s: {limits: {cpus: 1, cpu: 3, nosuch: 4}}}")
    assert (str(first.origin), first.severity, first.at_key) == ("f.yaml:1:35", Severity.ERROR, True)
    assert first.message == "nothing knows the key 'site.s.limits.cpu'"
    assert first.hint == "Did you mean 'cpus'?"
    assert second.path == ("site", "s", "limits", "nosuch")
    assert second.hint.startswith("There are 'cpus', 'memory', ")


@pytest.mark.parametrize("key", ["memory", "walltime", "submitRate", "pollFloor", "cpus", "queued"])
def test_a_ceiling_is_not_below_the_ground(key: str) -> None:
    (finding,) = findings_of(f"site: {{s: {{limits: {{{key}: -1}}}}}}")
    assert finding.message.startswith(f"'site.s.limits.{key}' must be at least ")


_WRONG: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 999),
    st.floats(-1, 1),
    st.sampled_from(["", "x", "{v}"]),
    st.lists(st.integers(-1, 300), max_size=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(-1, 1), max_size=2),
)


_PLACES: Final = [(), ("payload",), ("pipetask", "isr"), ("cluster", "c"), ("finalJob",), ("site", "s")]


@settings(max_examples=examples(200))
@given(st.dictionaries(st.sampled_from(KNOWN), _WRONG, max_size=4), st.sampled_from(_PLACES))
def test_every_finding_has_a_way_out(values: dict[str, Any], place: tuple[str, ...]) -> None:
    for step in reversed(place):
        values = {step: values}
    assert all(each.hint for each in findings_of(json.dumps(values)))


def test_out_collection_is_deprecated() -> None:
    assert said("outCollection: x\npayload: {outCollection: y}") == [
        "f.yaml:1:16: error: 'outCollection' is deprecated. Replace all references to it with 'outputRun'",
        "f.yaml:2:26: error: 'outCollection' is deprecated. Replace all references to it with 'outputRun'",
    ]
    assert findings_of("payload: {outCollection: y}")[0].hint == "Use 'outputRun'."


@pytest.mark.parametrize(
    ("text", "key", "guess"),
    [
        ("requestMemroy: 5", "requestMemroy", "requestMemory"),
        ("payload: {outputrun: x}", "payload.outputrun", "outputRun"),
        ("pipetask: {isr: {requestCPUs: 2}}", "pipetask.isr.requestCPUs", "requestCpus"),
        ("cluster: {c: {dimension: x}}", "cluster.c.dimension", "dimensions"),
        ("site: {s: {queues: x}}", "site.s.queues", "queue"),
        ("finalJob: {whenRuns: ALWAYS}", "finalJob.whenRuns", "whenRun"),
        ("replay: {timescale: 1}", "replay.timescale", "timeScale"),
        ("bps_cmdline: {requestMemroy: 1}", "requestMemroy", "requestMemory"),
    ],
)
def test_nearly_a_known_key(text: str, key: str, guess: str) -> None:
    (finding,) = findings_of(text)
    assert finding.severity is Severity.WARNING
    assert finding.message == f"nothing knows the key '{key}'"
    assert finding.hint == f"Did you mean '{guess}'?"


def test_variables_of_ones_own_are_no_misspellings() -> None:
    assert findings_of("outputs: 5\nlist: ['{outputs:03}']") == []
    assert findings_of("myVeryOwn: 1") == []
    assert findings_of("requestMemroy: 5", LayerRank.DEFAULTS) == []


def test_a_finding_points_into_the_layer_that_won() -> None:
    weak = make_layer({"requestCpus": "two"}, "weak", LayerRank.DEFAULTS)
    strong = make_layer({"requestCpus": "three"}, "strong", LayerRank.FILE)
    (finding,) = check_schema(merge_layers([weak, strong]), SCHEMA)
    assert (finding.origin.file, finding.message) == ("strong", "'requestCpus' cannot be 'three'")


def test_rules_we_have_no_words_for() -> None:
    root = parse_yaml("a: [1, 1]\nb: 5\nc: {}\nd: 6\ne: 5", "f.yaml")
    schema = {
        "properties": {
            "a": {"uniqueItems": True},
            "b": {"exclusiveMinimum": 5, "type": ["string", "integer"]},
            "c": {"required": ["d"]},
            "d": {"maximum": 5},
            "e": {"exclusiveMaximum": 5},
        },
    }
    assert [finding.message for finding in check_schema(root, schema)] == [
        "'a': [1, 1] has non-unique elements",
        "'b' must be more than 5, not '5'",
        "'c' lacks 'd'",
        "'d' must be at most 5, not '6'",
        "'e' must be less than 5, not '5'",
    ]
    assert check_schema(root, {"properties": {"a": False}})[0].hint == ""


def test_no_map_at_all() -> None:
    assert [finding.message for finding in findings_of("[1]")] == ["'' must be a map, not '[1]'"]


def test_thousands_of_lines() -> None:
    lines = ["pipetask:"]
    for i in range(1250):
        lines += [f"  task{i}:", f"    requestMemory: {i}", f"    queue: 'q{i}'", f"    mine{i}: '{{x}}'"]
    assert findings_of("\n".join(lines)) == []


NAMES = st.sampled_from(
    [*SCHEMA["$defs"]["job"]["properties"], *SCHEMA["properties"], "outCollection", "x", "requestMemroy"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("{}ab1", max_size=4),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_anything_can_be_checked(values: dict[str, Any]) -> None:
    for finding in check_schema(make_layer(values, "x", LayerRank.FILE).root, SCHEMA):
        assert finding.message
        assert len(finding.message) < 500
