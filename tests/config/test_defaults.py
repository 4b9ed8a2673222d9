"""The shipped defaults, their comments and the schema say the same, and what they give a job is what BPS would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.config.documented_keys import ALL_FILES, DOCUMENTED, FILES, SCHEMA, SERVICES, file_of, layer

from longshore.config.includes import read_yaml
from longshore.config.interpolate import Scope
from longshore.config.merge import Layer, LayerRank, Node, merge_layers, plain_map, plain_value
from longshore.config.profile import JobProfile, compile_profile
from longshore.config.quantities import parse_pool
from longshore.config.schema import check_schema
from longshore.config.search import Config
from longshore.config.service_lookup import default_service
from longshore.config.templates import Template
from longshore.config.yaml_text import parse_yaml
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, Request

ENV = {"PWD": "/here", "CTRL_MPEXEC_DIR": "/mpexec", "DAF_BUTLER_DIR": "/butler"}


def described(place: tuple[str, ...]) -> dict[str, Any]:
    """What the schema says of a place."""
    here: dict[str, Any] = SCHEMA
    for key in place:
        here = properties(here).get(key) or here["additionalProperties"]
        if "$ref" in here:
            here = SCHEMA["$defs"][here["$ref"].removeprefix("#/$defs/")]
    return here


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in schema.get("allOf", []):
        found |= properties(SCHEMA["$defs"][part["$ref"].removeprefix("#/$defs/")])
    found |= schema.get("properties", {})
    return found


def keys_of(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*place, key)
            yield from keys_of(below, (*place, key))


def config_of(*names: str, text: str = "{}") -> Config:
    mine = Layer("mine", LayerRank.FILE, parse_yaml(text, "mine.yaml"))
    return Config(merge_layers([*map(layer, names), mine]))


def test_every_key_has_a_comment_which_the_schema_repeats() -> None:
    for name, place, comment, _ in DOCUMENTED:
        assert comment, f"{'.'.join(place)} of {name} has no comment above it"
        entry = described(place)
        assert entry["description"] == comment, f"{'.'.join(place)} of {name}"
        assert entry["title"], f"{'.'.join(place)} of {name}"


@pytest.mark.parametrize("name", ALL_FILES)
def test_every_key_that_is_read_was_seen_as_documented(name: str) -> None:
    assert set(keys_of(plain_value(layer(name).root))) <= {place for _, place, _, _ in DOCUMENTED}


def test_every_example_is_a_right_value() -> None:
    examples = [(name, place, line) for name, place, _, line in DOCUMENTED if not line.endswith((": ", ">-"))]
    for name, place, line in examples:
        above = ["  " * depth + f"{key}:" for depth, key in enumerate(place[:-1])]
        text = "\n".join([*above, "  " * (len(place) - 1) + line])
        assert check_schema(parse_yaml(text, name), SCHEMA) == [], text


def test_the_service_of_runs_that_name_none_is_that_of_the_defaults() -> None:
    assert plain_map(layer("defaults.yaml").root)["wmsServiceClass"] == default_service()


def test_the_schema_is_one_and_everything_in_it_is_described() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == "urn:longshore:schema:config"
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        for key, entry in part.get("properties", {}).items():
            assert "$ref" in entry or (entry["title"] and entry["description"].endswith(".")), key
        assert part["title"]
        assert part["description"]


@pytest.mark.parametrize("names", [["defaults.yaml"], FILES, ALL_FILES])
def test_the_defaults_are_right(names: list[str]) -> None:
    assert check_schema(merge_layers(map(layer, names)), SCHEMA) == []


def test_service_and_site_files_are_read() -> None:
    assert plain_value(read_yaml(file_of("local/defaults.yaml"))) == {}
    site = read_yaml(SERVICES / "local" / "sites" / "local.yaml")
    assert plain_value(site) == {"title": "This machine", "service": "local"}
    assert check_schema(Node({"site": Node({"local": site}, site.origin)}, site.origin), SCHEMA) == []


def test_the_example_of_a_pool_is_one() -> None:
    example = next(line for _, place, _, line in DOCUMENTED if place == ("resources",))
    node = parse_yaml(example, "x").value
    assert isinstance(node, dict)
    assert parse_pool(node["resources"]) == {
        "cpus": 8,
        "memory": 16 * 1024 * MIB,
        "disk": 100 * 1024 * MIB,
        "gpus": ("0", "1", "3"),
        "licence": 2,
    }


def test_what_a_job_gets_by_default() -> None:
    config = config_of("defaults.yaml")
    settings = compile_profile(config, "isr", Scope(env=ENV)).settings
    assert settings.request == Request(cpus=1, memory_b=2048 * MIB)
    assert settings.defaulted == ("requestCpus", "requestMemory")
    rules = settings.rules
    assert (settings.number_of_retries, rules.retries_on_memory, rules.retries_on_time) == (0, 5, 2)
    assert (rules.retries_on_lost, rules.retries_on_preempted, rules.retries_on_transfer) == (None, 20, 3)
    assert settings.retry_unless_exit == ()
    assert not settings.rules.retry_unstartable
    assert settings.attributes == {"memoryMultiplier": 2.0, "preemptible": True}
    assert settings.working_directory == "/here"
    assert not config.search("memoryLimit").is_found
    assert not config.search("finalJob").is_found


def test_names_and_paths() -> None:
    config = config_of("defaults.yaml", text="{operator: me, payload: {payloadName: p}, bps_defined: {timestamp: T}}")
    assert config.search("outputRun").value == "u/me/p/T"
    assert config.search("submitPath", Scope(env=ENV)).value == "/here/submit/u/me/p/T"
    assert config.search("idLinkPath", Scope(env=ENV)).value == "/here/bps_links"
    current: dict[str, YamlValue] = {"label": "isr", "visit": 101, "band": "r"}
    assert config.search("subDirTemplate", Scope(current=current)).value == "isr/r/101"


def test_commands_of_lsst() -> None:
    config = config_of(
        *FILES, text="{payload: {butlerConfig: repo, inCollection: in}, pipelineYaml: p.yaml, qgraphFile: q}"
    )
    free = frozenset({"qgraphFile", "qgraphNodeId"})

    def command_of(profile: JobProfile) -> str:
        assert isinstance(profile.command, Template)
        return str(profile.command)

    options = "--long-log --log-level=VERBOSE"
    isr = compile_profile(config, "isr", Scope(free=free, env=ENV))
    program = "${{CTRL_MPEXEC_DIR:+${{CTRL_MPEXEC_DIR}}/bin/}}pipetask"
    assert command_of(isr) == f"{program} {options} run-qbb repo {{qgraphFile}} --qgraph-node-id {{qgraphNodeId}} "
    init = compile_profile(config, "pipetaskInit", Scope(free=free, env=ENV))
    assert command_of(init).startswith(f"{program} {options} pre-exec-init-qbb repo ")
    assert config.search("createQuantumGraph", Scope(env=ENV)).value == (
        f"/mpexec/bin/pipetask {options} qgraph --butler-config repo -i in -o u// --output-run u///"
        ' --pipeline p.yaml --save-qgraph q --qgraph-datastore-records -d "" '
    )
    final = config.node_at("finalJob")
    assert config.search("requestCpus", Scope(searchobj=final)).value == 16
    command = config.search("command1", Scope(searchobj=final, env=ENV)).value
    assert command == (
        f"/butler/bin/butler {options} aggregate-graph q repo -j 16 --register-dataset-types --update-output-chain "
    )
