"""Groups of jobs that run one after another, as BPS has them, on the graph of its tests."""

from __future__ import annotations

import pytest

from longshore.config.interpolate import DEFAULT_SCOPE
from longshore.config.merge import LayerRank, make_layer, merge_layers
from longshore.config.search import Config
from longshore.config.select import OrderingRule, parse_ordering_rules
from longshore.contract.algorithms import Start
from longshore.errors import ConfigError
from longshore.model.workflow import Implementation


def rules(ordering: object, **root: object) -> tuple[OrderingRule, ...]:
    layer = make_layer({"ordering": ordering, **root}, "run.yaml", LayerRank.USER)
    return parse_ordering_rules(Config(merge_layers([layer])), DEFAULT_SCOPE)


def test_a_section_is_a_rule() -> None:
    one, two, three = rules(
        {
            "one": {"labels": "isr, {more} ,", "dimensions": "visit, detector", "equalDimensions": "visit:exposure"},
            "two": {"labels": "coadd", "dimensions": "tract", "implementation": "noop", "blocking": "{hold}"},
            "gone": None,
            "three": {
                "labels": "warp",
                "dimensions": "tract",
                "ordering_type": "sort",
                "findDependencyMethod": "sink",
                "blocking": True,
            },
        },
        more="flat",
        hold="true",
    )
    assert (one.name, one.labels, one.dimensions) == ("one", ("isr", "flat"), ("visit", "detector"))
    assert one.equal == {"visit": ("exposure",), "exposure": ("visit",)}
    assert (one.implementation, one.blocking, one.start) == (Implementation.GROUP, False, None)
    assert (two.implementation, two.blocking) == (Implementation.NOOP, True)
    assert (three.start, three.blocking, three.origin.file) == (Start.SINK, True, "run.yaml")


def test_without_sections_there_are_no_rules() -> None:
    assert rules({}) == rules(None) == ()


@pytest.mark.parametrize(
    ("ordering", "message", "hint"),
    [
        ("by visit", "'ordering' must be a map of orders by their names", ""),
        ({"o1": "isr"}, "'ordering.o1' must be a map", ""),
        (
            {"o1": {"labels": "T1", "dimensions": "D1", "implementation": "grou"}},
            "'ordering.o1.implementation' must be 'group' or 'noop', not 'grou'",
            "Did you mean 'group'?",
        ),
        (
            {"o1": {"labels": "T1", "dimensions": "D1", "ordering_type": "random"}},
            "'ordering.o1.ordering_type' must be 'sort', not 'random'",
            "",
        ),
        ({"o1": {"labels": "T1"}}, "'ordering.o1' says no dimensions", "labels: ..., dimensions: ..."),
        ({"o1": {"labels": "", "dimensions": "D1"}}, "'ordering.o1' says no labels", ""),
        (
            {"o1": {"labels": "T1", "dimensions": "D1", "blocking": "perhaps"}},
            "'ordering.o1.blocking' must be true or false, not 'perhaps'",
            "",
        ),
        (
            {"o1": {"labels": "T1", "dimensions": "D1", "equalDimensions": "D1"}},
            "'ordering.o1.equalDimensions' has 'D1', which is no pair of dimensions",
            "",
        ),
    ],
)
def test_what_is_wrong_with_a_section(ordering: object, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules(ordering)
    assert caught.value.message == message
    assert hint in caught.value.hint
    assert caught.value.origin is not None
    assert caught.value.origin.file == "run.yaml"
