"""What jobs ask for that their service takes no notice of."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from longshore.model.tasks.dag import Dag
from longshore.model.tasks.task import Scalar
from longshore.model.workflow.job import Job, JobSettings
from longshore.model.workflow.workflow import Workflow
from longshore.plan.ignored_requests import ignored_requests


def notes(*attributes: Mapping[str, Scalar]) -> list[str]:
    jobs = [
        Job(name=f"j{number}", label="a", command="true", settings=JobSettings(label="a", attributes=each))
        for number, each in enumerate(attributes)
    ]
    found = list(ignored_requests(Workflow("w", Dag.by_name(jobs)), ("queue", "mailTo"), "the service"))
    assert not any(problem.fatal for problem in found)
    return [problem.message for problem in found]


def test_what_is_asked_for_in_vain_is_said_once_for_all_jobs() -> None:
    assert notes({"queue": "long"}, {"mailTo": "me", "queue": "short"}, {"category": "x"}) == [
        "the service takes no notice of 'queue', 'mailTo'"
    ]


@pytest.mark.parametrize("priority", [0, "0", 5, "2.5", -1])
def test_priorities_that_are_numbers_are_heeded(priority: Scalar) -> None:
    assert notes({"priority": priority}) == []


def test_a_priority_in_words_is_not() -> None:
    assert notes({"priority": "high"}) == ["the service takes no notice of 'priority'"]
