"""Which keys and values a schema knows at a place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.config.schema import KnownKey, find_choices, find_keys, takes_names
from longshore.config.schemas import configuration_schema

SCHEMA = {
    "allOf": [{"$ref": "#/$defs/job"}, {"$ref": "#/$defs/elsewhere"}],
    "properties": {
        "stages": {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/job"}},
        "memory": {"description": "Found first. Not this one."},
    },
    "$defs": {
        "job": {
            "properties": {
                "memory": {"type": "string", "description": "Found second."},
                "kind": {"anyOf": [{"type": "object", "properties": {"name": {}}}, {"enum": ["small", None, 3]}]},
                "quiet": {"type": ["boolean", "null"]},
                "nice": {"oneOf": [{"enum": [True]}, {"type": "integer"}]},
            }
        }
    },
}
NAMES = st.sampled_from(["stages", "kind", "pipetask", "site", "slurm", "limits", "isr", "finalJob", "", "notify"])


def test_keys_of_a_section_each_once_with_its_first_sentence() -> None:
    assert list(find_keys(SCHEMA, ())) == [
        KnownKey("stages", "", is_section=True, is_value=False),
        KnownKey("memory", "Found first", is_section=False, is_value=True),
        KnownKey("kind", "", is_section=True, is_value=True),
        KnownKey("quiet", "", is_section=False, is_value=True),
        KnownKey("nice", "", is_section=False, is_value=True),
    ]
    assert [key.name for key in find_keys(SCHEMA, ["stages", "any", "kind"])] == ["name"]
    assert list(find_keys(SCHEMA, ["memory", "below"])) == []


def test_values_that_a_key_takes() -> None:
    assert list(find_choices(SCHEMA, ["kind"])) == ["small", "null", "3"]
    assert list(find_choices(SCHEMA, ["stages", "x", "quiet"])) == ["true", "false"]
    assert list(find_choices(SCHEMA, ["nice"])) == ["true"]
    assert list(find_choices(SCHEMA, ["memory"])) == []


def test_sections_whose_keys_the_user_names() -> None:
    assert takes_names(SCHEMA, ["stages"])
    assert not takes_names(SCHEMA, ["stages", "x"])


@given(path=st.lists(NAMES, max_size=4))
def test_each_key_of_the_real_schema_can_be_descended_into(path: list[str]) -> None:
    schema = configuration_schema()
    for key in find_keys(schema, path):
        below = list(find_keys(schema, [*path, key.name]))
        assert key.is_section or not below
        assert key.is_section or key.is_value
