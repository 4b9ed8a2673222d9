"""Services add keys to the schemas by a table that an entry point of their package names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from longshore.config.layers import read_layers
from longshore.config.plugins import KEYS, SERVICES, Plugin, built_in_plugins, find_plugin
from longshore.config.schema import Severity
from longshore.config.schemas import (
    configuration_schema,
    key_table,
    key_tables,
    profile_schema,
    site_schema,
    unusable_tables,
)
from longshore.plan.configuration import make_draft
from longshore.plan.lint import lint_configuration

TABLE = """
from longshore.config import value_types as vt
from longshore.config.keys import JOB, RUN, SITE, Key, KeyTable

TABLE = KeyTable(
    "Berth",
    {
        "keys": (
            Key("berth", vt.CLOSED_MAP, JOB, "A map."),
            Key("berth.pier", vt.STRING, SITE, "Name of a pier.", default="north"),
            Key("profile.berth", vt.MAP, JOB, "Lines."),
            Key("tide", vt.STRING, RUN, "Height of the tide."),
            Key("submitPath", vt.MAP, RUN, "Another directory."),
            Key("harbour", vt.STRING, SITE, "Name of the harbour."),
        )
    },
    map="berth",
)
"""


def install(folder: Path, text: str) -> Path:
    """A package that registers a service and a table of keys; the place for the search path."""
    name = f"berth_{folder.name}".replace("-", "_")
    (folder / name).mkdir()
    (folder / name / "keys.py").write_text(text, "utf-8")
    (folder / name / "service.py").write_text("raise AssertionError\n", "utf-8")
    (folder / name / "__init__.py").write_text("", "utf-8")
    info = folder / "berth-1.0.dist-info"
    info.mkdir()
    entries = f"[longshore.wms]\nberth = {name}.service:Berth\n[longshore.keys]\nberth = {name}.keys:TABLE\n"
    (info / "entry_points.txt").write_text(entries, "utf-8")
    return folder


def test_the_keys_of_an_installed_service_are_in_all_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = configuration_schema()["$defs"]["run"]["properties"]["submitPath"]
    monkeypatch.syspath_prepend(str(install(tmp_path, TABLE)))
    schema = configuration_schema()
    definitions = schema["$defs"]
    pier = definitions["job"]["properties"]["berth"]["properties"]
    assert list(pier) == ["pier"]
    assert pier["pier"]["type"] == ["string", "null"]
    assert definitions["job"]["properties"]["profile"]["properties"].keys() == {"condor", "berth"}
    assert definitions["run"]["properties"]["tide"]["description"] == "Height of the tide."
    assert definitions["run"]["properties"]["submitPath"] == before, "a service cannot change a key of ours"
    assert definitions["site"]["properties"]["berth"]["properties"] == pier
    assert definitions["place"]["properties"]["harbour"] == {
        "title": "Harbour",
        "description": "Name of the harbour.",
        "x-users": ["berth"],
    }
    assert "berth" not in definitions["place"]["properties"], "jobs can have it, and so can the root"
    assert site_schema()["properties"]["harbour"]["type"] == ["string", "null"]
    assert "berth" in profile_schema()["properties"]
    plugin = find_plugin(SERVICES, "berth")
    assert plugin
    assert key_table(plugin).defaults() == {"berth": {"pier": "north"}}
    Draft202012Validator.check_schema(schema)
    Draft202012Validator.check_schema(profile_schema())


def test_a_package_that_is_not_installed_any_more_leaves_nothing(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install(tmp_path, TABLE)))
        assert "tide" in configuration_schema()["$defs"]["run"]["properties"]
    assert "tide" not in configuration_schema()["$defs"]["run"]["properties"]


@pytest.mark.parametrize("text", ["raise OSError", "TABLE = {}", "", "import nothing_has_this_name", "TABLE = ("])
def test_a_table_that_is_none_is_left_out_with_a_warning(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(install(tmp_path, text)))
    assert len(key_tables()) == len(built_in_plugins(KEYS)), "the others are read all the same"
    plugin = find_plugin(SERVICES, "berth")
    assert plugin
    assert key_table(plugin).rows == ()
    (message,) = unusable_tables()
    assert "'berth'" in message
    assert ".keys:TABLE'" in message
    write_file = tmp_path / "run.yaml"
    write_file.write_text("pipeline: {tasks: {a: {command: 'true'}}}\n", "utf-8")
    found = lint_configuration(make_draft(read_layers(write_file, now=0.0)))
    assert [(each.message, each.severity) for each in found] == [
        (f"{message}. Its keys are not checked", Severity.WARNING)
    ]


def test_a_package_without_a_table_adds_no_keys() -> None:
    assert key_table(Plugin("none", "textwrap", "dedent")).rows == ()


def test_what_htcondor_adds() -> None:
    added_keys = key_table(built_in_plugins(SERVICES)["htcondor"]).added_keys
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
