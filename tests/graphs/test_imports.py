"""A pipeline merges its imports and overrides them; errors name their place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.merge import Node, plain_value, to_node
from longshore.config.templates import substitute_values
from longshore.errors import ConfigError, LongshoreError, Origin
from longshore.graphs.declarations import (
    merge_imports,
    read_declaration,
    read_imports,
    select_imported,
    substitute_parameters,
)

HERE, THERE, OTHER = Origin("p.yaml", 1, 1), Origin("base.yaml", 2, 3), Origin("other.yaml", 4, 5)

BASE: dict[str, Any] = {
    "dimensions": {"visit": [1, 2]},
    "tasks": {
        "isr": {"dimensions": ["visit"], "command": "isr", "outputs": {"raw": "raw/{visit}"}},
        "calib": {"dimensions": ["visit"], "command": "calib", "inputs": ["raw"], "after": ["check"]},
        "check": {"command": "check"},
    },
    "subsets": {"early": ["isr", "check"], "all": {"subset": ["isr", "calib", "check"], "description": "it all"}},
}


def imported(pipeline: Any, *others: Any, **how: Any) -> Any:
    """The pipeline as it is with what it imports."""
    (item,) = read_imports(to_node({"imports": {"location": "base.yaml", **how}}, HERE))
    parts = [
        select_imported(to_node(other, origin), item) for other, origin in zip(others, (THERE, OTHER), strict=False)
    ]
    return plain_value(merge_imports(to_node(pipeline, HERE), parts))


def test_all_of_a_pipeline_is_taken() -> None:
    assert imported({}, BASE) == {**BASE}
    assert plain_value(merge_imports(to_node({"imports": "x", "description": "mine"}, HERE), [])) == {
        "description": "mine"
    }


def test_importing_pipeline_overrides_imports() -> None:
    own = {"dimensions": {"visit": [7]}, "tasks": {"isr": {"command": "mine"}}}
    found = imported(own, BASE)
    assert found["dimensions"] == {"visit": [7]}
    assert found["tasks"]["isr"] == {**BASE["tasks"]["isr"], "command": "mine"}
    assert list(found["tasks"]) == ["isr", "calib", "check"]


@pytest.mark.parametrize(
    ("how", "labels", "subsets"),
    [
        ({"include": ["isr"]}, ["isr"], []),
        ({"include": "early"}, ["isr", "check"], ["early"]),
        ({"exclude": ["check"]}, ["isr", "calib"], []),
        ({"exclude": ["check"], "labeledSubsetModifyMode": "EDIT"}, ["isr", "calib"], ["early", "all"]),
        ({"exclude": ["early"], "labeledSubsetModifyMode": "EDIT"}, ["calib"], ["all"]),
    ],
)
def test_a_part_of_a_pipeline(how: dict[str, Any], labels: list[str], subsets: list[str]) -> None:
    found = imported({}, BASE, **how)
    assert list(found["tasks"]) == labels
    assert list(found.get("subsets", {})) == subsets
    assert read_declaration(to_node(found, HERE)).tasks.keys() == set(labels), "nothing waits for what was left out"


def test_a_label_that_is_left_out_can_be_defined_anew() -> None:
    found = imported({"tasks": {"check": {"command": "mine"}}}, BASE, exclude=["check"])
    assert found["tasks"]["calib"]["after"] == ["check"]
    assert found["tasks"]["check"] == {"command": "mine"}


def test_equal_definitions_of_two_imports_are_accepted() -> None:
    assert imported({}, BASE, BASE) == BASE


@pytest.mark.parametrize(
    ("section", "one", "other"),
    [("dimensions", [1], [2]), ("tasks", {"command": "a"}, {"command": "b"}), ("parameters", "a", "b")],
)
def test_conflicting_imports_are_refused(section: str, one: Any, other: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        imported({}, {section: {"x": one}}, {section: {"x": other}})
    assert str(caught.value) == (
        f"other.yaml:4:5: two imported pipelines define the {section[:-1]} 'x' in different ways\n"
        "The other one is at base.yaml:2:3. Define it in the pipeline that imports them, or exclude one."
    )
    assert imported({section: {"x": other}}, {section: {"x": one}}, {section: {"x": other}})[section] == {"x": other}


@pytest.mark.parametrize(
    ("imports", "says"),
    [
        ([None], "what 'imports' names must be text, not 'null'"),
        ([[]], "what 'imports' names must be text"),
        ({"include": ["a"]}, "an import has no 'location'"),
        ({"location": ""}, "'location' of an import must be text"),
        ({"location": "x", "inclde": ["a"]}, "an import has no key 'inclde'\nDid you mean 'include'?"),
        ({"location": "x", "include": ["a"], "exclude": ["b"]}, "an import has both 'include' and 'exclude'"),
        ({"location": "x", "include": [None]}, "'include' of an import must be a list of names, not 'null'"),
        (
            {"location": "x", "labeledSubsetModifyMode": "drop"},
            "'labeledSubsetModifyMode' must be DROP or EDIT, not 'drop'",
        ),
    ],
)
def test_an_import_that_is_wrong(imports: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_imports(to_node({"imports": imports}, HERE))
    assert str(caught.value).startswith(f"p.yaml:1:1: {says}")


def test_unknown_label_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        imported({}, BASE, include=["isrr"])
    assert str(caught.value) == (
        "p.yaml:1:1: the import of 'base.yaml' names the unknown subset or task 'isrr'\nDid you mean 'isr'?"
    )


def filled(parameters: Any, **pipeline: Any) -> Any:
    return plain_value(substitute_parameters(to_node({"parameters": parameters, **pipeline}, HERE)))


def test_parameters_stand_for_their_values() -> None:
    found = filled(
        {"n": 7, "visits": [1, 2], "opts": "-v {size} $HOME"},
        dimensions={"visit": "{visits}"},
        datasets={"raw": "{n:03}/{visit}"},
        tasks={"isr": {"command": ["isr", "{opts}", "{n}"]}, "b": {"command": "awk '{print $1}' ${n} {{n}} {opts}"}},
    )
    assert found == {
        "dimensions": {"visit": [1, 2]},
        "datasets": {"raw": "007/{visit}"},
        "tasks": {
            "isr": {"command": ["isr", "-v {size} $HOME", 7]},
            "b": {"command": "awk '{print $1}' ${n} {{n}} -v {size} $HOME"},
        },
    }


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"visit": 1}, "'visit' is in 'dimensions' and cannot be a parameter as well"),
        ({"a-b": 1}, "'a-b' cannot be a name in 'parameters'"),
        ({"n": None}, "the parameter 'n' has no value"),
        ({"n": [1]}, "the parameter 'n' is no text, and stands within one: 'x {n}'"),
        ([1], "'parameters' must be a map"),
    ],
)
def test_parameters_that_are_wrong(parameters: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        filled(parameters, dimensions={"visit": [1]}, tasks={"a": {"command": "x {n}"}})
    assert says in str(caught.value)
    assert caught.value.origin == HERE


def test_pipeline_without_parameters_is_unchanged() -> None:
    node = to_node(BASE, HERE)
    assert plain_value(substitute_parameters(node)) == BASE


@given(st.text(alphabet="{}$a:0 x", max_size=30))
def test_text_without_a_parameter_is_unchanged(text: str) -> None:
    assert substitute_values(text, {"zzz": 1}) == text


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["isr", "early", "{n}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["tasks", "subsets", "imports", "isr", "location", "include", "n"]), inner)
    ),
    max_leaves=12,
)


@given(trees, trees)
def test_any_import_gives_a_result_or_a_longshore_error(one: Any, other: Any) -> None:
    try:
        items = read_imports(to_node(one, HERE))
        parts = [select_imported(to_node(other, THERE), item) for item in items]
        assert isinstance(substitute_parameters(merge_imports(to_node(one, HERE), parts)), Node)
    except LongshoreError as error:
        assert error.origin is not None  # noqa: PT017 - either is right
