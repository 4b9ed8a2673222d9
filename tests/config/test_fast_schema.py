"""What is quickly said to fit a schema does fit it, and all that usually stands in a configuration is said to."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from longshore.config.plugins import shipped_path
from longshore.config.schema import FastSchema
from longshore.config.schemas import configuration_schema

SCHEMA: dict[str, Any] = configuration_schema()
KEYS = st.sampled_from(
    [*SCHEMA["$defs"]["job"]["properties"], *SCHEMA["$defs"]["run"]["properties"], *SCHEMA["properties"]]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text("{}1a:", max_size=3) | st.just("ALWAYS"),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(KEYS | st.just("command1"), below, max_size=3),
    max_leaves=6,
)
QUICK = FastSchema(SCHEMA)
VALIDATOR = Draft202012Validator(SCHEMA)


@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_what_fits_is_valid(values: dict[str, Any]) -> None:
    if QUICK.fits(values):
        assert VALIDATOR.is_valid(values)


def test_the_defaults_fit() -> None:
    assert QUICK.fits(yaml.safe_load(shipped_path("etc", "defaults.yaml").read_text("utf-8")))
    assert QUICK.fits({"pipetask": {"isr": {"requestMemory": "{mem}", "retryUnlessExit": [1, 2]}}, "mine": [1]})


def test_what_is_not_known_is_left_to_others() -> None:
    assert not FastSchema({"uniqueItems": True}).fits([1])
    assert not FastSchema({"properties": {"a": False}}).fits({"a": 1})
    assert not QUICK.fits({"requestCpus": 0})
    assert not QUICK.fits([])
