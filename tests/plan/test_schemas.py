"""Services add keys to the schemas by a fragment that their packages ship."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from longshore.config.plugins import SERVICES, Plugin, built_in_plugins, find_plugin
from longshore.config.schemas import configuration_schema, profile_schema, schema_fragment, site_schema
from longshore.errors import ConfigError

FRAGMENT: dict[str, Any] = {
    "title": "Berth",
    "$defs": {
        "map": {
            "title": "Berth",
            "description": "A map.",
            "type": "object",
            "properties": {"pier": {"$ref": "#/$defs/text"}},
        },
        "text": {"type": "string"},
        "job": {
            "properties": {"berth": {"$ref": "#/$defs/map"}, "profile": {"properties": {"berth": {"type": "object"}}}}
        },
        "run": {"properties": {"tide": {"$ref": "#/$defs/text"}, "submitPath": {"type": "object"}}},
        "site": {"properties": {"berth": {"$ref": "#/$defs/map"}, "harbour": {"type": "string", "title": "H"}}},
    },
}


def install(folder: Path, text: str) -> Path:
    """A package that registers a service and ships a schema; the place for the search path."""
    (folder / "berth").mkdir()
    (folder / "berth" / "schema.json").write_text(text, "utf-8")
    (folder / "berth" / "__init__.py").write_text("raise AssertionError\n", "utf-8")
    info = folder / "berth-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[longshore.wms]\nberth = berth.service:Berth\n", "utf-8")
    return folder


@pytest.mark.parametrize("name", sorted(name for name in built_in_plugins(SERVICES) if "." not in name))
def test_a_shipped_fragment_is_a_schema_and_everything_in_it_is_described(name: str) -> None:
    plugin = built_in_plugins(SERVICES)[name]
    assert plugin.folder
    document = json.loads((plugin.folder / "schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(document)
    fragment = schema_fragment(plugin)
    for key, entry in (fragment.job | fragment.run | fragment.site).items():
        assert key == "profile" or (entry["title"] and entry["description"].endswith(".")), key


def test_the_keys_of_an_installed_service_are_in_all_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = configuration_schema()["$defs"]["run"]["properties"]["submitPath"]
    monkeypatch.syspath_prepend(str(install(tmp_path, json.dumps(FRAGMENT))))
    schema = configuration_schema()
    pier = {"pier": {"type": "string"}}
    definitions = schema["$defs"]
    assert definitions["job"]["properties"]["berth"]["properties"] == pier
    assert definitions["job"]["properties"]["profile"]["properties"].keys() == {"condor", "berth"}
    assert definitions["run"]["properties"]["tide"] == {"type": "string", "x-users": ["berth"]}
    assert definitions["run"]["properties"]["submitPath"] == before, "a service cannot change a key of ours"
    assert definitions["site"]["properties"]["berth"]["properties"] == pier
    assert definitions["place"]["properties"]["harbour"] == {"title": "H", "x-users": ["berth"]}
    assert "berth" not in definitions["place"]["properties"], "jobs can have it, and so can the root"
    assert site_schema()["properties"]["harbour"] == {"type": "string", "title": "H", "x-users": ["berth"]}
    assert "berth" in profile_schema()["properties"]
    Draft202012Validator.check_schema(schema)
    Draft202012Validator.check_schema(profile_schema())


def test_a_package_that_is_not_installed_any_more_leaves_nothing(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install(tmp_path, json.dumps(FRAGMENT))))
        assert "tide" in configuration_schema()["$defs"]["run"]["properties"]
    assert "tide" not in configuration_schema()["$defs"]["run"]["properties"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"title": "Berth"}',
        '{"title": 1, "$defs": {}}',
        '{"title": "Berth", "$defs": {"job": []}}',
        '{"title": "Berth", "$defs": {"job": {"properties": {"a": 1}}}}',
        '{"title": "B", "$defs": {"a": {"$ref": "#/$defs/a"}, "run": {"properties": {"a": {"$ref": "#/$defs/a"}}}}}',
    ],
)
def test_a_fragment_that_is_none_is_refused_with_its_place(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(install(tmp_path, text)))
    plugin = find_plugin(SERVICES, "berth")
    assert plugin
    with pytest.raises(ConfigError) as raised:
        schema_fragment(plugin)
    assert str(tmp_path / "berth" / "schema.json") in raised.value.message
    assert "'berth'" in raised.value.message


def test_a_package_without_a_schema_adds_no_keys() -> None:
    assert schema_fragment(Plugin("none", "textwrap", "dedent")).added_keys == frozenset()


def test_what_htcondor_adds() -> None:
    added_keys = schema_fragment(built_in_plugins(SERVICES)["htcondor"]).added_keys
    assert {"nodeset", "wmsConfig", "condor"} <= added_keys
    assert added_keys.isdisjoint({"htcondor", "profile"})


def test_what_can_be_said_of_all_sites_is_described_as_for_one() -> None:
    site = site_schema()["properties"]
    assert configuration_schema()["$defs"]["site"]["properties"] == site
    for key, entry in configuration_schema()["$defs"]["place"]["properties"].items():
        assert entry == {name: site[key][name] for name in ("title", "description", "x-users") if name in site[key]}


def test_each_user_of_a_key_is_a_service_or_stands_for_several() -> None:
    known = {name for name in built_in_plugins(SERVICES) if "." not in name} | {"bps", "pilots"}
    found = {user for schema in (configuration_schema(), site_schema()) for user in _users(schema)}
    assert found == known


def _users(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("x-users", ())
    for below in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _users(below)
