"""Semantic versions and their ranges: bounds are inside, pre-releases are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.sites.match import is_in_range, parse_version


@pytest.mark.parametrize(
    ("version", "least", "most", "inside"),
    [
        ("0.5.1", "0.5.1", "0.5.5", True),
        ("0.5.2", "0.5.1", "0.5.5", True),
        ("0.5.5", "0.5.1", "0.5.5", True),
        ("0.5.6", "0.5.1", "0.5.5", False),
        ("0.5.0", "0.5.1", "0.5.5", False),
        ("0.5.10", "0.5.1", "0.5.5", False),
        ("v0.5.2", "0.5.1", "0.5.5", True),
        ("0.5", "0.5.0", None, True),
        ("0.5.5", None, "0.5", True),
        ("0.6.0", None, "0.5", False),
        ("1.9.9", None, "1", True),
        ("0.5.2-rc1", "0.5.1", "0.5.5", False),
        ("0.5.2-rc2", "0.5.2-rc1", None, True),
        ("0.5.2-2", "0.5.2-10", None, False),
        ("0.5.2-rc1", "0.5.2", "0.5.3-a", False),
        ("0.5.2", "0.5.2-rc1", "0.5.2", True),
        ("0.5.2+build", "0.5.2", "0.5.2", True),
        ("2024.10", "2024.1", None, True),
        ("0.5.2", "0.5.5", "0.5.1", False),
    ],
)
def test_a_range(version: str, least: str | None, most: str | None, inside: bool) -> None:
    bounds = [parse_version(bound) if bound else None for bound in (least, most)]
    known = parse_version(version)
    assert known is not None
    assert is_in_range(known, *bounds) is inside


PARTS = st.lists(st.integers(0, 12).map(str) | st.sampled_from(["rc", "a"]), max_size=3)
VERSIONS = st.builds(
    lambda numbers, parts: ".".join(map(str, numbers)) + ("-" + ".".join(parts) if parts else ""),
    st.lists(st.integers(0, 12), min_size=1, max_size=3),
    PARTS,
)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_versions_have_one_order(one: str, two: str, three: str) -> None:
    first, second, third = (parse_version(text) for text in (one, two, three))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [first.full < second.full, first.full == second.full, second.full < first.full].count(True) == 1
    if first.full < second.full < third.full:
        assert first.full < third.full
    if first.full == second.full:
        assert hash(first.full) == hash(second.full)
    assert is_in_range(first, first, first)


@pytest.mark.parametrize("text", ["banana", "", "1.2.3.4", "1.", "1.2.3-", "9" * 30, "-1"])
def test_another_text_is_no_version(text: str) -> None:
    assert parse_version(text) is None
