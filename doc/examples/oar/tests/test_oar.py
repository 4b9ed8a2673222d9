"""OAR's dialect: scripts, replies, rows and calls, by replies recorded from OAR 2.5.9."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from longshore_oar.dialect import OarDialect, condition
from longshore_oar.parse import account_rows, queue_rows
from longshore_oar.script import properties, read_directives, resources, walltime
from longshore_oar.service import OarService

from longshore.config.plugins import template_texts
from longshore.contract.executor import Batch, BatchMember
from longshore.contract.service import RunPaths
from longshore.errors import ConfigError
from longshore.model.workflow import MIB, Request
from longshore.services.batch.jobs import TaskId
from longshore.services.batch.script_writer import ScriptWriter
from longshore.system.programs import ProgramResult


def member(job: int) -> BatchMember:
    """Return a member of a batch."""
    return BatchMember(
        job=job, attempt=1, name="a", command="true", environment={}, working_directory="/", log=f"{job}.log"
    )


def submitted(tmp_path: Path, members: int, **settings: object) -> tuple[str, ...]:
    """Return the words of oarsub for a batch."""
    batch = Batch(
        id="1",
        tag="run-1-1",
        request=Request(cpus=2, memory_b=3000 * MIB, walltime_s=3725.5),
        members=tuple(map(member, range(members))),
        attributes={"queue": "besteffort", "accountingGroup": "a b"},
        settings=settings,
    )
    dialect = OarDialect({})
    scripts = ScriptWriter(dialect, RunPaths(tmp_path), {"oar": {}}, template_texts(OarService)["batch.sh"])
    return dialect.submit_call(scripts.text(batch), ()).argv


def test_an_array_is_one_call(tmp_path: Path) -> None:
    """Directives become words, and the script is the last one."""
    *words, command = submitted(tmp_path, 3, memoryPerCore=1000, memoryProperty="memnode", types=["besteffort"])
    assert words == [
        "oarsub", "-n", "run-1-1", "--array", "3", "-d", "/", "-O", "/dev/null", "-E", "/dev/null",
        "-l", "/nodes=1/core=3,walltime=1:02:06", "-p", "memnode >= 3000", "-q", "besteffort", "--project", "a b",
        "-t", "besteffort",
    ]  # fmt: skip
    assert "OAR_ARRAY_INDEX" in command
    assert "#" not in command


def test_a_single_job_has_no_index(tmp_path: Path) -> None:
    """Only the command tells whether a job belongs to an array."""
    words = submitted(tmp_path, 1)
    assert "--array" not in words
    assert "OAR_ARRAY_INDEX" not in words[-1]


def test_walltimes_have_three_parts() -> None:
    """Seconds are rounded up."""
    assert [walltime(each) for each in (0, 59.2, 3600, 90061)] == ["0:00:01", "0:01:00", "1:00:00", "25:01:01"]


def test_memory_is_cores_or_a_property() -> None:
    """Without a setting, memory is not requested."""
    request = Request(cpus=1, memory_b=5000 * MIB)
    assert resources(request, {}) == "/nodes=1/core=1"
    assert resources(request, {"memoryPerCore": 2000, "hostResource": "host"}) == "/host=1/core=3"
    assert properties(request, {}) == ""
    assert properties(request, {"memoryProperty": "m", "properties": "a = 'x'"}) == "(a = 'x') AND m >= 5000"


@pytest.mark.parametrize("types", [["idempotent"], "besteffort", ["cosystem"]])
def test_types_that_change_ends_are_refused(types: object) -> None:
    """OAR would run a job again by itself."""
    with pytest.raises(ConfigError):
        OarDialect({}).check_job({"types": types})  # type: ignore[dict-item]


REFUSED = "[ADMISSION RULE] Modify resource description with type constraints\nOAR_JOB_ID=-5\n"


@pytest.mark.parametrize(
    ("status", "out", "err", "outcome", "number"),
    [
        (0, "[ADMISSION RULE] Set default walltime to 7200.\nOAR_JOB_ID=11\n", "", "accepted", 11),
        (0, "Simple array job submission is used\nOAR_JOB_ID=16\nOAR_JOB_ID=17\nOAR_ARRAY_ID=16\n", "", "accepted", 16),
        (9, "OAR_JOB_ID=3\n", "[ERROR] Cannot connect to executor h:6666. Job is killed.", "accepted", 3),
        (8, REFUSED, "There are not enough resources for your request", "refused", None),
        (8, REFUSED, "Bad resource request (Unknown column 'foo' in 'SELECT)", "refused", None),
        (248, "", "ERROR : The queue nope does not exist", "refused", None),
        (254, "", "[ADMISSION RULE] Error: too many jobs", "unexplained", None),
        (2, "", "DB connection error, exiting.", "unreachable", None),
        (None, "", "", "unsure", None),
        (0, "", "", "unsure", None),
    ],
)
def test_replies_have_one_meaning(status: int | None, out: str, err: str, outcome: str, number: int | None) -> None:
    """A refused job has a negative id."""
    reply = OarDialect({}).submit_reply(ProgramResult(argv=("oarsub",), status=status, out=out, err=err))
    assert (reply.outcome, reply.id) == (outcome, number)


def job(number: int, *, array: int = 0, index: int = 1, **more: object) -> dict[str, object]:
    """Return a job as `oarstat -J -f` prints it."""
    return {
        "Job_Id": number, "array_id": array or number, "array_index": index, "name": "run-1-1", "state": "Running",
        "command": 'x "$OAR_ARRAY_INDEX"' if array else "x 1", "message": "R=1,W=0:5:0,J=B (Karma=0.000,quota_ok)",
        "startTime": 1795456156, "stopTime": 0, "submissionTime": 1795456140, "exit_code": None,
        "assigned_network_address": ["n1"], "events": [],
    } | more  # fmt: skip


def text(*jobs: dict[str, object]) -> str:
    """Return jobs as oarstat prints them."""
    return json.dumps({str(each["Job_Id"]): each for each in jobs})


def test_rows_of_the_queue() -> None:
    """Members of an array count from 0, and a held job says so."""
    jobs = (
        job(16, array=16),
        job(17, array=16, index=2, state="Hold", startTime=0, assigned_network_address=[], message="R=1,W=0:5:0"),
        job(18, state="Waiting", startTime=0, message="Cannot determine scheduling time due to dependency"),
    )
    first, second, third = queue_rows(text(*jobs))
    assert [str(each.id) for each in (first, second, third)] == ["16_0", "16_1", "18"]
    assert (first.started_at, first.node, first.reason) == (1795456156.0, "n1", "")
    assert (second.reason, second.raw_id, second.started_at) == ("held", "17", None)
    assert third.reason.startswith("Cannot determine")
    assert list(queue_rows("")) == []


@pytest.mark.parametrize(
    ("state", "status", "events", "end"),
    [
        ("Terminated", 768, ["SWITCH_INTO_TERMINATE_STATE"], (None, 3, 0)),
        ("Terminated", 9, ["SWITCH_INTO_TERMINATE_STATE"], (None, 0, 9)),
        ("Error", None, ["FRAG_JOB_REQUEST", "WALLTIME", "SEND_KILL_JOB"], ("WALLTIME", None, 0)),
        ("Error", None, ["FRAG_JOB_REQUEST", "SEND_KILL_JOB"], ("CANCELLED", None, 0)),
        ("Error", None, ["BESTEFFORT_KILL", "FRAG_JOB_REQUEST"], ("PREEMPTED", None, 0)),
        ("Error", None, ["LAUNCHING_OAREXEC_TIMEOUT"], ("LOST", None, 0)),
    ],
)
def test_ends_are_told_apart(
    state: str, status: int | None, events: list[str], end: tuple[str | None, int | None, int]
) -> None:
    """The state is Error for many reasons: the events tell which."""
    ended = job(1, state=state, exit_code=status, stopTime=1795456159, events=[{"type": each} for each in events])
    (row,) = account_rows(text(ended))
    assert (OarDialect.states.cause(row.state), row.exit, row.signal) == end
    assert (row.run_s, row.queue_s) == (3.0, 16.0)


def test_tasks_are_named_by_a_condition() -> None:
    """Jobs and members of arrays are in one call."""
    tasks = [TaskId(7), TaskId(5, 0), TaskId(5, 2), TaskId(3)]
    assert condition(tasks) == "array_id IN (3, 7) OR (array_id = 5 AND array_index IN (1, 3))"


def test_running_jobs_get_term_before_they_are_killed() -> None:
    """Oardel alone kills at once."""
    calls = [call.argv for call in OarDialect({"killDelay": 3}).cancel_calls([TaskId(7)])]
    assert [words[0] for words in calls] == ["oardel", "oardel", "sh"]
    assert calls[1][1:3] == ("-s", "TERM")
    assert calls[2][-2:] == ("3", "(array_id IN (7)) AND state NOT IN ('Terminated', 'Error')")
    waiting = [call.argv for call in OarDialect({}).cancel_calls([TaskId(7)], waiting_only=True)]
    assert waiting == [("oardel", "--sql", "(array_id IN (7)) AND state IN ('Waiting', 'Hold')")]


def test_lines_of_directives_are_not_in_the_command() -> None:
    """Words in quotes stay together."""
    assert read_directives("#!/bin/sh\n#OAR -n 'a b'\n#OAR --hold\nexec x\n") == (("-n", "a b", "--hold"), "exec x")
