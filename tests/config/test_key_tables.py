"""Each row of the tables of keys is whole, its values are right, and everything that is made of it has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from tests.config.documented_keys import DOCUMENTED
from tests.generate.__main__ import generated_files

from longshore.config.keys import PROFILE, ROOT, SITE, Key
from longshore.config.merge import LayerRank, make_layer
from longshore.config.plugins import KEYS, built_in_plugins
from longshore.config.schema import check_schema, find_key_schema, find_keys
from longshore.config.schemas import configuration_schema, key_tables, profile_schema
from longshore.services.batch.client import CEILING_S, FLOOR_S
from longshore.services.batch.executor.executor import _MAX_WAITING_ALIKE
from longshore.services.batch.pilots.allocations import PilotSettings

TABLES = dict(zip(built_in_plugins(KEYS), key_tables(), strict=True))
ROWS = [(owner, row) for owner, table in TABLES.items() for row in table.rows]


def path_of(row: Key) -> list[str]:
    """The keys that lead to a row, with a name of the user's choice."""
    return [step.removesuffix("[]") for step in row.steps]


def nested(row: Key, value: Any) -> dict[str, Any]:
    """A configuration in which the key has a value."""
    for step in reversed(row.steps):
        value = {step.removesuffix("[]"): [{"name": "x", **value}] if step.endswith("[]") else value}
    return dict(value)


def test_each_key_has_one_row() -> None:
    seen = [(row.name, row.level) for _, row in ROWS]
    assert len(set(seen)) == len(seen)
    maps = {table.map for table in TABLES.values()}
    tops = {row.name for _, row in ROWS if "." not in row.name}
    assert maps - {""} <= tops


@pytest.mark.parametrize("owner", TABLES)
def test_each_row_is_described_in_sentences_and_stands_below_its_map(owner: str) -> None:
    table, known = TABLES[owner], {row.name for _, row in ROWS}
    for row in table.rows:
        assert row.description.endswith("."), row.name
        above = row.name.rpartition(".")[0]
        assert not above or above.removesuffix("[]") in known, row.name


def test_each_row_but_those_of_maps_with_rows_has_a_value_to_show() -> None:
    above = {row.name.rpartition(".")[0].removesuffix("[]") for _, row in ROWS}
    lacking = [
        row.name
        for _, row in ROWS
        if row.default is row.example is row.graphs is UNSET
        and not (row.implied or row.holds)
        and row.name not in above
    ]
    assert [name for name in lacking if not name.endswith("NAME")] == ["bps_defined"]


@pytest.mark.parametrize("owner", TABLES)
def test_each_default_and_example_is_a_right_value(owner: str) -> None:
    for row in TABLES[owner].rows:
        schema = profile_schema() if row.level in (SITE, PROFILE) and "." not in row.name else configuration_schema()
        for value in (row.default, row.graphs, row.example):
            if value is UNSET or row.steps[-1] == "NAME":
                continue
            root = make_layer(nested(row, value), "mine", LayerRank.FILE).root
            assert check_schema(root, schema) == [], row.name


@given(chosen=st.sampled_from(ROWS), name=st.sampled_from(["isr", "site", "a.b", "NAME"]))
def test_each_row_is_in_the_schema_in_completion_and_on_a_page(chosen: tuple[str, Key], name: str) -> None:
    owner, row = chosen
    schema = profile_schema() if row.level in (SITE, PROFILE) else configuration_schema()
    path = [name if step == "NAME" else step for step in path_of(row)]
    if not any(step.endswith("[]") for step in row.steps):
        found = find_key_schema(path, schema)
        assert found is not None
        assert found["description"]
        if row.steps[-1] != "NAME":
            offered = {key.name for key in find_keys(schema, path[:-1])}
            assert {row.steps[-1], *row.spellings} <= offered
    heading = f"\n### `{row.name}`\n"
    page = {"sites": "site-profiles", "core": "configuration", "quantum_graphs": "configuration"}.get(owner, owner)
    assert heading in PAGES[page], row.name


PAGES = {path.stem: text for path, text in generated_files().items() if path.suffix == ".md"}


def test_each_key_of_runs_is_documented_with_the_defaults() -> None:
    documented = {place[1:] if place[0] == "payload" and len(place) > 1 else place for _, place, _, _ in DOCUMENTED}
    for _, row in ROWS:
        if (row.level in (SITE, PROFILE) and "." not in row.name) or row.steps[0] in ("bps_cmdline", "bps_defined"):
            continue
        if row.level in (SITE, PROFILE) and row.steps[0] not in {table.map for table in TABLES.values()}:
            continue
        assert row.steps in documented, row.name


def test_a_key_of_a_level_is_found_where_that_level_says() -> None:
    schema = configuration_schema()
    for _, row in ROWS:
        if "." in row.name or row.level is ROOT:
            continue
        assert (find_key_schema(["pipetask", "isr", row.name], schema) is not None) == any(
            other.name == row.name and (other.level == "job") for _, other in ROWS
        ), row.name


def test_the_defaults_of_pilots_are_those_that_their_rows_name() -> None:
    rows = {row.name: row.implied for row in TABLES["core"].rows if row.name.startswith("pilot.")}
    settings = PilotSettings()
    found = {
        "pilot.cpus": settings.cpus,
        "pilot.walltime": settings.walltime_s,
        "pilot.count": settings.count,
        "pilot.nodes": settings.nodes,
        "pilot.idle": settings.idle_s,
        "pilot.shortJob": settings.short_job_s,
        "pilot.lease": settings.lease_s,
    }
    assert rows == {name: f"{found[name]:g}" if name in found else "" for name in rows}


@pytest.mark.parametrize("service", ["slurm", "sge", "lsf"])
def test_the_defaults_of_the_kit_are_those_that_its_rows_name(service: str) -> None:
    rows = {row.steps[-1]: row.implied for row in TABLES[service].below(service)}
    assert rows["pollInterval"] == f"{FLOOR_S:g}"
    assert rows["pollCeiling"] == f"{CEILING_S:g}"
    assert rows["n_max_queued_jobs"] == str(_MAX_WAITING_ALIKE)
