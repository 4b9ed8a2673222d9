"""Priorities that have no effect are noted once for all jobs."""

from __future__ import annotations

import pytest

from longshore.model.tasks import Dag, Scalar
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.sites.requests import ignored_priorities


def notes(*priorities: Scalar) -> list[str]:
    jobs = [
        Job(
            name=f"j{number}",
            label="a",
            command="true",
            settings=JobSettings(label="a", attributes={"priority": priority}),
        )
        for number, priority in enumerate(priorities)
    ]
    found = list(ignored_priorities(Workflow("w", Dag.by_name(jobs)), "the service"))
    assert not any(problem.fatal for problem in found)
    return [problem.message for problem in found]


@pytest.mark.parametrize("priority", [0, "0", 5, "2.5", -1])
def test_numeric_priority_is_not_noted(priority: Scalar) -> None:
    assert notes(priority) == []


def test_textual_priority_is_noted_once() -> None:
    assert notes(1, "high", "low") == ["the service ignores a 'priority' that is no number: 'high'"]
