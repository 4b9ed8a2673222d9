"""Problems of many jobs become a list that can be read: what is alike is told once, with the number of jobs."""

from __future__ import annotations

import pytest
from tests.progress_notes import ProgressNotes

from longshore.contract.service import Problem
from longshore.errors import FilesError, Origin, PreparationError, RequestError
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.plan.problems import MAX_LISTED, drop_consequences, group_problems, merge_labels, raise_problems


def workflow(**jobs: int) -> Workflow:
    """So many jobs per label, which share their settings."""
    made = []
    for label, number in jobs.items():
        settings = JobSettings(label=label)
        made += [Job(name=f"{label}{each}", label=label, command="true", settings=settings) for each in range(number)]
    return Workflow("w", Dag.by_name(made))


def test_a_problem_of_settings_is_one_of_all_jobs_that_share_them() -> None:
    jobs = workflow(a=1000, b=1, c=2)
    problems = [
        Problem(message=f"job '{label}0' asks for 9 of 'cpus'", job=f"{label}0", key="requestCpus") for label in "abc"
    ]
    assert [(each.message, each.label, each.jobs) for each in group_problems(problems, jobs)] == [
        ("job 'a0' asks for 9 of 'cpus' (and 999 more jobs of 'a')", "a", 1000),
        ("job 'b0' asks for 9 of 'cpus'", "b", 1),
        ("job 'c0' asks for 9 of 'cpus' (and 1 more job of 'c')", "c", 2),
    ]


def test_what_differs_in_the_name_of_the_job_alone_is_one() -> None:
    problems = [Problem(message=f"job 'a{n}' runs 'x'", job=f"a{n}", jobs=1, code="files") for n in range(5)]
    assert [each.message for each in group_problems(problems, workflow(a=5))] == [
        "job 'a0' runs 'x' (and 4 more jobs of 'a')"
    ]


def test_of_many_that_differ_some_are_told_and_the_rest_counted() -> None:
    problems = [Problem(message=f"job 'a{n}' reads 'f{n}'", job=f"a{n}", jobs=1) for n in range(100_000)]
    told = group_problems(problems, workflow(a=100_000))
    assert [each.message for each in told] == [
        "job 'a0' reads 'f0'",
        "job 'a1' reads 'f1'",
        f"job 'a2' reads 'f2' (and {100_000 - MAX_LISTED:,} more like it)",
    ]
    assert sum(each.jobs for each in told) == 100_000


def test_what_is_about_no_job_stays_as_it_is() -> None:
    problems = [Problem(message="'x' is no site"), Problem(message="'y' is no site"), Problem(message="'x' is no site")]
    assert [(each.message, each.jobs) for each in group_problems(problems, workflow(a=1))] == [
        ("'x' is no site", 0),
        ("'y' is no site", 0),
    ]


REQUEST = Problem(message="too much", origin=Origin("run.yaml", 3, 1), hint="Ask for less.", label="a", jobs=7)
FILES = Problem(message="not there", code="files")


def test_notes_are_told_and_nothing_is_refused() -> None:
    told = ProgressNotes()
    raise_problems([Problem(message="by the way", fatal=False)], told)
    assert told.notes == ["by the way"]


@pytest.mark.parametrize(
    ("problems", "kind", "message"),
    [
        ([REQUEST], RequestError, "too much"),
        ([REQUEST, REQUEST], RequestError, "too much (and 1 more)"),
        ([FILES], FilesError, "not there"),
        ([REQUEST, FILES], PreparationError, "too much (and 1 more)"),
    ],
)
def test_all_that_is_wrong_is_one_error(problems: list[Problem], kind: type[PreparationError], message: str) -> None:
    with pytest.raises(PreparationError) as caught:
        raise_problems([*problems, Problem(message="by the way", fatal=False)], told := ProgressNotes())
    error = caught.value
    assert type(error) is kind
    assert (error.message, error.origin, error.hint) == (message, problems[0].origin, problems[0].hint)
    assert [fault.message for fault in error.details] == [problem.message for problem in problems]
    assert [(fault.label, fault.jobs) for fault in error.details] == [(each.label, each.jobs) for each in problems]
    assert told.notes == ["by the way"]


def test_a_request_that_exceeds_several_bounds_is_one_error_of_its_first() -> None:
    jobs = workflow(a=2)
    limit = Problem(message="job 'a0' exceeds a limit", job="a0", key="requestCpus")
    node = Problem(message="job 'a0' exceeds a node", job="a0", key="requestCpus")
    doubt = Problem(message="job 'a0' may wait for processors", job="a0", key="requestCpus", fatal=False)
    memory = Problem(message="job 'a0' exceeds a node", job="a0", key="requestMemory")
    options = [Problem(message=f"no partition '{name}'", job="a0", key="slurm") for name in "xy"]
    assert [*drop_consequences([limit, node, doubt, memory, *options], jobs)] == [limit, memory, *options]
    assert [*drop_consequences([doubt, node], jobs)] == [doubt, node]


def test_jobs_of_several_labels_with_one_wrong_value_are_one_error() -> None:
    jobs = workflow(a=2, b=1, c=1, d=1, e=1, f=1)
    place = Origin("run.yaml", 3, 14)
    problems = [
        Problem(message=f"job '{label}0' asks for 9", job=f"{label}0", key="requestCpus", origin=place)
        for label in "abcdef"
    ]
    (merged,) = merge_labels(group_problems(problems, jobs))
    assert merged.message == (
        "job 'a0' asks for 9 (and 1 more job of 'a', and jobs of 'b', 'c', 'd' and 2 more labels)"
    )
    assert (merged.label, merged.jobs) == ("a", 7)


def test_labels_with_values_of_their_own_stay_apart() -> None:
    jobs = workflow(a=1, b=1)
    problems = [
        Problem(message=f"job '{label}0' asks for 9", job=f"{label}0", jobs=1, origin=Origin("run.yaml", line, 1))
        for line, label in enumerate("ab", 1)
    ]
    assert merge_labels(group_problems(problems, jobs)) == group_problems(problems, jobs)
