"""Which results of an earlier workflow stay, and why the other jobs run."""

from __future__ import annotations

import posixpath

import msgspec
import pytest

from longshore.model.workflow import JobSettings, Request
from longshore.plan.match_run import (
    EarlierJobs,
    MatchJob,
    MatchReason,
    RunValues,
    WorkflowMatch,
    describe_command_change,
    match_workflows,
    result_command,
)

A = MatchJob("a", "A", "make a", (), ("raw",), ("a.out",))
B = MatchJob("b", "B", "make b", (0,), ("a.out",), ("b.out",))
C = MatchJob("c", "C", "make c", (1,), ("b.out",), ("c.out",))
X = MatchJob("x", "A", "make x", (), ("raw",), ("x.out",))
CHAIN = (A, B, C, X)


def reasons(match: WorkflowMatch) -> list[str]:
    return [each.reason.value for each in match.jobs]


def test_what_succeeded_with_the_same_command_and_inputs_is_kept() -> None:
    match = match_workflows(EarlierJobs(CHAIN, {}), CHAIN)
    assert reasons(match) == ["kept"] * 4
    assert (match.kept, match.changed, match.gone) == ([0, 1, 2, 3], [], [])
    assert all("it succeeded" in each.detail for each in match.jobs)


def test_a_changed_command_runs_again_with_all_that_reads_its_outputs() -> None:
    match = match_workflows(EarlierJobs(CHAIN, {}), (A, B._replace(command="make b well"), C, X))
    assert reasons(match) == ["kept", "command", "reads", "kept"]
    assert "b well" in match.jobs[1].detail
    assert match.jobs[2].detail == "it waits for 'b', which runs"
    assert match.changed == [1, 2]


def test_another_path_of_the_same_file_is_no_change() -> None:
    new = (A._replace(inputs=("./raw",)), B, C, X)
    assert reasons(match_workflows(EarlierJobs(CHAIN, {}), new, identify=posixpath.normpath)) == ["kept"] * 4
    match = match_workflows(EarlierJobs(CHAIN, {}), (A._replace(inputs=("./new",)), B), identify=posixpath.normpath)
    assert match.jobs[0].detail == "it reads 'new' now"


def test_a_job_that_failed_is_no_change_but_what_waited_for_it_runs() -> None:
    ends = {1: "failed", 2: "waited for one that failed or was cancelled"}
    match = match_workflows(EarlierJobs(CHAIN, ends), CHAIN)
    assert reasons(match) == ["kept", "unfinished", "unfinished", "kept"]
    assert (match.changed, match.jobs[1].detail) == ([], "it failed")
    # A result that was made before what it is made from failed in a later restart.
    match = match_workflows(EarlierJobs(CHAIN, {0: "failed"}), CHAIN)
    assert reasons(match) == ["unfinished", "reads", "reads", "kept"]


def test_jobs_are_matched_by_name_whatever_their_order() -> None:
    new = (X, A._replace(name="n"), A, B._replace(parents=(1, 2)), C._replace(parents=(3,)))
    match = match_workflows(EarlierJobs(CHAIN, {}), new)
    assert reasons(match) == ["kept", "new", "kept", "inputs", "reads"]
    assert match.jobs[3].detail == "it waits for 'n' now"
    assert match.pairs == {3: 0, 0: 2, 1: 3, 2: 4}


def test_a_job_that_is_gone_is_told_and_what_waited_for_it_runs() -> None:
    match = match_workflows(EarlierJobs(CHAIN, {}), (B._replace(parents=()), C._replace(parents=(0,))))
    assert match.gone == [0, 3]
    assert reasons(match) == ["inputs", "reads"]
    assert match.jobs[0].detail == "it waits for 'a' no more"


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (A._replace(inputs=("raw", "flat")), "it reads 'flat' now"),
        (A._replace(inputs=()), "it reads 'raw' no more"),
        (A._replace(outputs=("else",)), "it writes 'else' now"),
    ],
)
def test_other_files_make_another_result(changed: MatchJob, detail: str) -> None:
    match = match_workflows(EarlierJobs(CHAIN, {}), (changed, B, C, X))
    assert reasons(match) == ["inputs", "reads", "reads", "kept"]
    assert match.jobs[0].detail == detail


def test_changed_inputs_and_lost_outputs_are_reasons() -> None:
    earlier = EarlierJobs(CHAIN, {}, {0: "its input 'raw' was written since"}, {1: "its output is gone"})
    assert reasons(match_workflows(earlier, CHAIN)) == ["inputs", "reads", "reads", "kept"]
    assert reasons(match_workflows(earlier._replace(changed_inputs={}), CHAIN)) == ["kept", "outputs", "reads", "kept"]


def test_a_final_job_runs_again_when_any_other_does() -> None:
    final = MatchJob("final", "final", "gather", ())
    earlier = EarlierJobs((A, final), {})
    assert reasons(match_workflows(earlier, (A, final), final=1)) == ["kept", "kept"]
    match = match_workflows(earlier, (A._replace(command="other"), final), final=1)
    assert match.jobs[1].reason is MatchReason.FINAL


def test_values_of_a_run_are_no_difference() -> None:
    settings = JobSettings(label="A", environment={"OUT": "/runs/1/T1/out"}, working_directory="/runs/1/T1")
    other = msgspec.structs.replace(settings, environment={"OUT": "/runs/2/T2/out"}, working_directory="/runs/2/T2")
    first, second = (
        RunValues.of({"submitPath": f"/runs/{run}/T{run}", "timestamp": f"T{run}", "runId": ""}) for run in (1, 2)
    )
    command = ("write", "--to", "/runs/1/T1/x", "--tag=T1")
    same = ("write", "--to", "/runs/2/T2/x", "--tag=T2")
    assert result_command(command, settings, {}, first) == result_command(same, other, {}, second)
    assert result_command(command, settings, {}, first) != result_command(same, settings, {}, second)


def test_requests_and_retries_make_no_other_result_and_secrets_are_not_shown() -> None:
    values = RunValues.of({})
    settings = JobSettings(label="A", environment={"TOKEN": "s3cret"})
    larger = msgspec.structs.replace(settings, request=Request(memory_b=1 << 30), number_of_retries=7)
    assert result_command("run", settings, {}, values) == result_command("run", larger, {}, values)
    other = msgspec.structs.replace(settings, environment={"TOKEN": "0ther"})
    old, new = (A._replace(command=result_command("run", each, {}, values)) for each in (settings, other))
    match = match_workflows(EarlierJobs((old,), {}), (new,))
    assert match.jobs[0].detail == "the variable 'TOKEN' of its environment has another value now, or is new"


def test_another_working_directory_is_named() -> None:
    settings = (JobSettings(label="A", working_directory=folder) for folder in ("/then", "/now"))
    old, new = (A._replace(command=result_command("cd /x; run", each, {}, RunValues.of({}))) for each in settings)
    match = match_workflows(EarlierJobs((old,), {}), (new,))
    assert match.jobs[0].detail == "it runs in '/now' now, and ran in '/then'"


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (
            "awk '$3 > 50' raw/S1.txt > out",
            "awk '$3 > 70' raw/S1.txt > out",
            """its command has "... '$3 > 70' raw/S1.txt > out" now, and had "... '$3 > 50' raw/S1.txt > out\"""",
        ),
        ("cta a", "cat a", "its command has 'cat a' now, and had 'cta a'"),
        (
            """grep -e "it's 1" a""",
            """grep -e "it's 2" a""",
            """its command has `... "it's 2" a` now, and had `... "it's 1" a`""",
        ),
    ],
)
def test_the_part_of_a_command_that_differs_is_quoted_from_the_beginning_of_a_word(
    before: str, now: str, told: str
) -> None:
    assert describe_command_change(before, now) == told


def test_a_difference_inside_a_long_text_is_shown() -> None:
    old = "awk '" + "{ total += $1 } " * 9 + "END { print total }' a"
    told = describe_command_change(old, old.replace("print total", "print sum"))
    assert told == """its command has "... sum }' a" now, and had "... total }' a\""""
