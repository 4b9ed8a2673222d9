"""Requirements are split at their outermost conjunctions, to name the part that no slot meets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.workflow import Job, JobSettings, Request
from longshore.services.htcondor.check import note_unmatched_requirements, split_conjunction
from longshore.services.htcondor.schedd.client import CondorClient


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("a", ["a"]),
        ('(OpSys == "LINUX") && Arch == "X86_64"', ['OpSys == "LINUX"', 'Arch == "X86_64"']),
        ("((a && b) && (c || d && e))", ["a", "b", "c || d && e"]),
        ("a && b ? c : d", ["a && b ? c : d"]),
        ("(a) || (b)", ["(a) || (b)"]),
        ("f(a && b, {1, 2}) && x[0]", ["f(a && b, {1, 2})", "x[0]"]),
        ('Name == "a && b" && c', ['Name == "a && b"', "c"]),
        ("", []),
    ],
)
def test_parts_of_an_expression(expression: str, parts: list[str]) -> None:
    assert split_conjunction(expression) == parts


@given(st.text(alphabet='ab&|()"\\ ', max_size=20))
def test_any_text_is_split_without_an_error(text: str) -> None:
    assert "".join(split_conjunction(text)).count("a") <= text.count("a")


class Pool(CondorClient):
    """A pool in which some expressions match."""

    def __init__(self, matching: Mapping[str, int], total: int = 4) -> None:
        super().__init__()
        self.matching = matching
        self.total = total
        self.asked: list[str] = []

    def is_expression(self, text: str) -> bool:
        """Accept all but a comparison with nothing."""
        return not text.endswith(">")

    def count_matching_slots(self, expression: str, job: Mapping[str, int]) -> tuple[int, int, str]:
        """Answer as the test says."""
        assert self.is_expression(expression)
        self.asked.append(expression)
        return (
            self.total,
            self.matching.get(f"{expression} {job['RequestCpus']}" if job else expression, 0),
            "Arch X86_64",
        )


def job(requirements: str, cpus: int = 1, **more: Any) -> Job:
    own = {"profile.condor": {"requirements": requirements}, **more}
    settings = JobSettings(label="l", request=Request(cpus=cpus), service_settings=own)
    return Job(name="j", label="l", command="true", settings=settings)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder for this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_part_that_no_slot_meets_is_named_once() -> None:
    pool = Pool({"a": 2})
    (found, again) = note_unmatched_requirements([job("(a) && (b)"), job("(a) && (b)")], pool)
    assert found.message == again.message == "job 'j': no slot of the pool meets its requirements: b"
    assert found.hint == "Slots have Arch X86_64. The job waits until such a slot joins the pool."
    assert not found.fatal
    assert pool.asked == ["(a) && (b)", "a", "b"]
    assert [*note_unmatched_requirements([job("(a) && (b)")], pool)] == [found]
    assert len(pool.asked) == 3, "the answer is shared"


def test_parts_that_are_met_by_different_slots() -> None:
    (found,) = note_unmatched_requirements([job("a && b")], Pool({"a": 1, "b": 1}))
    assert found.message.endswith("its requirements: a && b")
    assert found.hint.startswith("No slot has its attributes.")


def test_what_is_not_judged() -> None:
    assert not [*note_unmatched_requirements([job("a")], Pool({"a": 1}))]
    assert not [*note_unmatched_requirements([job("z")], Pool({}, total=0))], "machines may be started later"
    assert not [*note_unmatched_requirements([job("x == $(y)"), job("a", nosuch=1), job("Memory >")], Pool({}))]


def test_an_expression_is_judged_with_the_amounts_that_it_names() -> None:
    pool = Pool({"Cpus > requestcpus 1": 1})
    jobs = [job("Cpus > requestcpus", cpus) for cpus in (1, 8, 1)]
    assert len([*note_unmatched_requirements(jobs, pool)]) == 1
    assert len(pool.asked) == 3, "once for the first, and twice for the second and its only part"
