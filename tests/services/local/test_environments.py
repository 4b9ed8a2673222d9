"""The environment of each attempt is its own, although attempts share the array that it is made from."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.keeper.program.spawner import Environments
from longshore.keeper.protocol import MemberOrder

NAMES = st.sampled_from(["PATH", "HOME", "TMPDIR", "LONGSHORE_JOB", "X", "Ü"])
VARIABLES = st.dictionaries(
    NAMES, st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5), max_size=5
)


def member(number: int, variables: dict[str, str]) -> MemberOrder:
    return cast("MemberOrder", {"e": number, "v": variables})


def environments(*each: dict[str, str]) -> Environments:
    found = Environments()
    for number, variables in enumerate(each):
        found.add({"o": "env", "id": number, "env": variables})
    return found


@given(st.lists(VARIABLES, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0, 2), VARIABLES)))
def test_each_attempt_has_the_variables_of_its_environment_and_its_own(
    shared: list[dict[str, str]], added: list[tuple[int, dict[str, str]]]
) -> None:
    known = environments(*shared)
    made = [(known.encode(member(number, own), f"/tmp/{number}"), number, own) for number, own in added]
    for words, number, own in made:
        if number >= len(shared):
            assert words is None
            continue
        assert words is not None
        *texts, last = words
        expected = {**shared[number], **own, "TMPDIR": f"/tmp/{number}"}
        assert last is None
        assert len(texts) == len(expected)
        assert set(texts) == {f"{name}={value}".encode() for name, value in expected.items()}


def test_an_environment_with_a_zero_byte_is_left_to_the_standard_library() -> None:
    known = environments({"X": "a\0b"})
    assert known.encode(member(0, {}), "/tmp/0") is None


def test_a_variable_with_a_zero_byte_is_refused_and_the_next_attempt_has_its_own() -> None:
    known = environments({"PATH": "/bin"})
    with pytest.raises(ValueError, match="embedded null byte"):
        known.encode(member(0, {"X": "a\0b"}), "/tmp/0")
    words = known.encode(member(0, {"X": "c"}), "/tmp/1")
    assert words is not None
    assert set(words) == {b"X=c", b"TMPDIR=/tmp/1", b"PATH=/bin", None}
