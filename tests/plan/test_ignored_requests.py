"""Requests that a service ignores are noted once for all jobs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from longshore.model.tasks import Dag, Scalar
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.sites.requests import ignored_requests


def notes(*attributes: Mapping[str, Scalar]) -> list[str]:
    jobs = [
        Job(name=f"j{number}", label="a", command="true", settings=JobSettings(label="a", attributes=each))
        for number, each in enumerate(attributes)
    ]
    found = list(ignored_requests(Workflow("w", Dag.by_name(jobs)), ("queue", "mailTo"), "the service"))
    assert not any(problem.fatal for problem in found)
    return [problem.message for problem in found]


def test_ignored_attributes_are_noted_once_for_all_jobs() -> None:
    assert notes({"queue": "long"}, {"mailTo": "me", "queue": "short"}, {"category": "x"}) == [
        "the service ignores 'queue', 'mailTo'"
    ]


@pytest.mark.parametrize("priority", [0, "0", 5, "2.5", -1])
def test_numeric_priority_is_not_noted(priority: Scalar) -> None:
    assert notes({"priority": priority}) == []


def test_textual_priority_is_noted() -> None:
    assert notes({"priority": "high"}) == ["the service ignores 'priority'"]
