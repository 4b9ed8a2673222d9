"""What LSF's programs print is read as it is meant; their exit status says nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pytest
from tests.services.lsf import samples

from longshore.config.retries import LSF_STATES
from longshore.contract.service import Unreachable
from longshore.model.states import Cause
from longshore.services.batch.answers import SubmissionReply, SubmitOutcome
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.ends import classify_end
from longshore.services.batch.jobs import AccountRow, QueuePhase, TaskId
from longshore.services.batch.records import BatchRecord
from longshore.services.lsf import answers, cluster
from longshore.services.lsf.answers import STATES
from longshore.services.lsf.dialect import LsfDialect, dependency_text
from longshore.system.programs import ProgramResult

NOW = datetime(2026, 1, 3, 12, 0)  # noqa: DTZ001


def said(out: str = "", err: str = "", status: int | None = 0) -> ProgramResult:
    return ProgramResult(argv=("x",), status=status, out=out, err=err)


class _Programs:
    """Programs that print what a test has for each, by the beginning of their command lines."""

    def __init__(self, answers: Mapping[str, ProgramResult]) -> None:
        self.answers = answers
        self.given: list[str] = []

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        line = " ".join(argv)
        self.given.append(line)
        assert env["LSB_NTRIES"] == "2"
        return next(answer for begin, answer in self.answers.items() if line.startswith(begin))


def client(**answers: ProgramResult) -> tuple[BatchClient, _Programs]:
    programs = _Programs({name.replace("_", " "): answer for name, answer in answers.items()})
    return BatchClient(LsfDialect({}), shell=programs), programs


# ------------------------------------------------------------------------------------------------------------ submit


@pytest.mark.parametrize(
    ("answer", "outcome", "number"),
    [
        (said(samples.BSUB_DEFAULT), "ACCEPTED", 29209),
        (said(samples.BSUB_NOISE + samples.BSUB_QUEUE), "ACCEPTED", 29210),
        (said(err=samples.BSUB_QUEUE, status=0), "ACCEPTED", 29210),
        (said("Welcome!\n"), "UNSURE", None),
        (said(status=None), "UNSURE", None),
        (said(err=samples.BSUB_REFUSED, status=255), "REFUSED", None),
        (said(err="nope: No such queue. Job not submitted.", status=255), "REFUSED", None),
        (said(err="Bad resource requirement syntax. Job not submitted.", status=255), "REFUSED", None),
        (said(err="normal: Queue has been closed. Job not submitted.", status=255), "CLOSED", None),
        (said(err="User's pending job threshold reached. Job not submitted.", status=255), "CLOSED", None),
        (said(err="Job array size exceeds. MAX_JOB_ARRAY_SIZE. Job not submitted.", status=255), "TOO_LARGE", None),
        (said(err="Failed in sending/receiving a message: Connection reset", status=255), "BROKEN", None),
        (said(err="Communication time out. Job not submitted.", status=255), "UNSURE", None),
        (said(err="Cannot connect to LSF. Please wait ...", status=255), "UNREACHABLE", None),
        (said(err="Request aborted by esub. Job not submitted.", status=255), "UNEXPLAINED", None),
        (said(err="night: Queue has been inactivated. Job not submitted.", status=255), "CLOSED", None),
        (said(err="Not activated because queue windows are closed. Job not submitted.", status=255), "CLOSED", None),
        (said(err="User or one of user's groups does not have enough job slots.", status=255), "CLOSED", None),
        (said(err="The destination queue has reached its job limit. Job not submitted.", status=255), "CLOSED", None),
        (said(err="No job Id can be used now. Job not submitted.", status=255), "THROTTLED", None),
        (said(err="System call failed: No space left on device", status=255), "THROTTLED", None),
        (said(err="Batch daemon cannot fork", status=255), "THROTTLED", None),
        (said(err="Batch service not registered", status=255), "UNREACHABLE", None),
        (said(err="Cannot exceed queue's hard limit(s). Job not submitted.", status=255), "REFUSED", None),
        (said(err="User not in the specified user group. Job not submitted.", status=255), "REFUSED", None),
    ],
)
def test_the_reply_to_a_submission_has_one_meaning(answer: ProgramResult, outcome: str, number: int | None) -> None:
    assert answers.REPLIES.read(answer) == SubmissionReply(SubmitOutcome[outcome], number)


# ------------------------------------------------------------------------------------------------------------- jobs


def test_a_success_is_read_with_all_that_is_known_of_it() -> None:
    (row,) = answers.account_rows("Please wait ...\n" + samples.BJOBS_DONE, NOW).values()
    assert (row.id, row.state, row.exit, row.cpu_s, row.run_s) == (TaskId(22005), "DONE", 0, 1.0, 16038.0)
    assert (row.peak_memory_b, row.node) == (round(5.2 * 2**30), "cn019")
    assert row.ended_at == datetime(2025, 12, 28, 19, 56).timestamp(), "the newest such moment"  # noqa: DTZ001
    assert row.gathered["exec_cwd"] == "/home/otptest"
    assert "exit_code" not in row.gathered


def test_the_fields_of_document_003_are_asked_for_and_stored() -> None:
    (call,) = LsfDialect({}).accounting_calls([TaskId(7), TaskId(8, 0)], "")
    asked = call.argv[call.argv.index("-o") + 1].split()
    assert len(answers.STORED_FIELDS) == 18
    assert set(answers.STORED_FIELDS) <= set(asked)
    assert call.argv[-2:] == ("7", "8[1]")
    values = ",".join(f'"{name.upper()}":"x{place}"' for place, name in enumerate(asked) if name != "jobid")
    (row,) = answers.account_rows(f'{{"RECORDS":[{{"JOBID":"7",{values}}}]}}', NOW).values()
    assert set(row.gathered) == set(answers.STORED_FIELDS)


def test_an_element_of_an_array_counts_from_one() -> None:
    (row,) = answers.account_rows(samples.BJOBS_KILLED, NOW).values()
    assert (row.id, row.raw_id, row.exit) == (TaskId(22006, 3), "22006[4]", None)
    (queued,) = answers.queue_rows(samples.BJOBS_KILLED)
    assert (queued.id, queued.name, queued.state) == (TaskId(22006, 3), "k7-1-1", "TERM_OWNER")
    shown = '{"RECORDS":[{"JOBID":"5[2]","STAT":"RUN","EXEC_HOST":"4*hostA:hostB","JOB_NAME":"n[2]"}]}'
    assert [(each.id, each.node) for each in answers.queue_rows(shown)] == [(TaskId(5, 1), "hostA")]


@pytest.mark.parametrize("text", [samples.BJOBS_UNKNOWN, samples.BJOBS_NONE, "No job found\n", ""])
def test_an_unknown_job_is_in_no_answer(text: str) -> None:
    assert answers.read_records(text) == []
    assert answers.account_rows(text, NOW) == {}


def test_text_is_asked_for_where_the_json_is_not_valid() -> None:
    asked, programs = client(bjobs__a__json=said(samples.BJOBS_BROKEN), bjobs=said(samples.BJOBS_TEXT))
    programs.answers = {"bjobs -a -json": said(samples.BJOBS_BROKEN), "bjobs -a -noheader": said(samples.BJOBS_TEXT)}
    answer = asked.query_accounting([TaskId(1), TaskId(22006, 3)])
    assert not isinstance(answer, Unreachable)
    assert {str(task): row.state for task, row in answer.items()} == {"1": "DONE", "22006_3": "TERM_RUNLIMIT"}
    assert answer[TaskId(1)].gathered["job_name"] == "a^b", "a name may have the separator"
    assert programs.given[1].endswith("delimiter='^' 1 22006[4]")


def test_an_old_version_without_json_is_asked_for_text() -> None:
    asked, programs = client()
    programs.answers = {
        "bjobs -a -json": said(err="bjobs: illegal option -- j\nUsage: ...", status=255),
        "bjobs -a -noheader": said(samples.BJOBS_TEXT),
    }
    answer = asked.queue(max_age_s=0.0)
    assert answer is not None
    assert [row.state for row in asked.rows(answer)] == ["DONE", "TERM_RUNLIMIT"]
    (call,) = LsfDialect({"bjobsFormat": "text"}).accounting_calls([TaskId(1)], "")
    assert "-json" not in call.argv
    assert call.otherwise is None


@pytest.mark.parametrize("status", [0, 255])
def test_no_jobs_is_an_answer_whatever_the_exit_status(status: int) -> None:
    asked, programs = client()
    programs.answers = {"bjobs": said(err="No unfinished job found\n", status=status)}
    answer = asked.queue(max_age_s=0.0)
    assert answer is not None
    assert answer.text is not None
    assert list(asked.rows(answer)) == []
    assert len(programs.given) == 1


def test_a_cluster_that_does_not_answer_has_no_answer() -> None:
    asked, programs = client()
    programs.answers = {"bjobs": said(err="Cannot connect to LSF. Please wait ...\n", status=255)}
    answer = asked.queue(max_age_s=0.0)
    assert answer is not None
    assert (answer.text, answer.why) == (None, "Cannot connect to LSF. Please wait ...")
    assert isinstance(asked.show_job(TaskId(1)), Unreachable)


@pytest.mark.parametrize(
    ("state", "reason", "phase", "cause"),
    [
        ("DONE", "", QueuePhase.OVER, None),
        ("EXIT", "", QueuePhase.OVER, Cause.EXIT),
        ("EXIT", "TERM_MEMLIMIT: job killed", QueuePhase.OVER, Cause.OOM),
        ("EXIT", "TERM_RUNLIMIT: job killed", QueuePhase.OVER, Cause.WALLTIME),
        ("EXIT", "TERM_OWNER: job killed by owner", QueuePhase.OVER, Cause.CANCELLED),
        ("EXIT", "TERM_PREEMPT: job killed", QueuePhase.OVER, Cause.PREEMPTED),
        ("EXIT", "TERM_ORPHAN_SYSTEM", QueuePhase.OVER, Cause.CANCELLED),
        ("EXIT", "TERM_OF_A_LATER_VERSION: x", QueuePhase.OVER, Cause.EXIT),
        ("ZOMBI", "", QueuePhase.OVER, Cause.LOST),
        ("RUN", "", QueuePhase.RUNNING, Cause.EXIT),
        ("UNKWN", "", QueuePhase.RUNNING, Cause.EXIT),
        ("PSUSP", "", QueuePhase.WAITING, Cause.EXIT),
        ("NEWSTATE", "", QueuePhase.UNKNOWN, Cause.EXIT),
    ],
)
def test_a_state_and_a_reason_mean_a_phase_and_a_cause(
    state: str, reason: str, phase: QueuePhase, cause: Cause | None
) -> None:
    text = f'{{"RECORDS":[{{"JOBID":"7","STAT":"{state}","EXIT_REASON":"{reason}","EXIT_CODE":"137"}}]}}'
    (row,) = answers.queue_rows(text)
    assert STATES.phase(row.state) is phase
    if phase is QueuePhase.OVER:
        assert STATES.cause(row.state) is cause


@pytest.mark.parametrize("name", LSF_STATES)
def test_a_state_that_may_be_a_success_has_its_cause(name: str) -> None:
    cause = STATES.cause(name)
    assert LSF_STATES[name] == ("SUCCEEDED" if cause is None else cause.value,)


@pytest.mark.parametrize("code", ["137", "130", "1", ""])
def test_the_reason_decides_and_never_the_exit_code(code: str) -> None:
    text = (
        f'{{"RECORDS":[{{"JOBID":"7","STAT":"EXIT","EXIT_REASON":"TERM_MEMLIMIT: job killed after reaching LSF memory '
        f'usage limit","EXIT_CODE":"{code}"}}]}}'
    )
    account = answers.account_rows(text, NOW)[TaskId(7)]
    end = classify_end((0, 1), LsfDialect({}), record=None, account=account)
    assert end.cause is Cause.OOM
    assert end.reason == "LSF says TERM_MEMLIMIT: job killed after reaching LSF memory usage limit"
    assert end.exit != 0


def test_a_held_job_waits_for_a_person() -> None:
    (row,) = answers.queue_rows('{"RECORDS":[{"JOBID":"7","STAT":"PSUSP","JOB_NAME":"x"}]}')
    assert row.reason in STATES.held_reasons
    text = "New job is waiting for scheduling: 3 hosts; Not enough slots: 2 hosts;"
    (row,) = answers.queue_rows(f'{{"RECORDS":[{{"JOBID":"7","STAT":"PEND","PEND_REASON":"{text}"}}]}}')
    assert row.reason == "New job is waiting for scheduling"


# ---------------------------------------------------------------------------------------------------------- history


@pytest.mark.parametrize(
    ("text", "task", "state", "code", "signal", "node"),
    [
        (samples.BHIST_DONE, TaskId(1962), "DONE", 0, 0, "hostA"),
        (samples.BHIST_RUNLIMIT, TaskId(1963), "TERM_RUNLIMIT", 140, 0, "hostA"),
        (samples.BHIST_SIGNAL, TaskId(1964, 2), "EXIT", None, 2, ""),
        (samples.BACCT_MEMLIMIT, TaskId(4020), "TERM_MEMLIMIT", None, 0, "hostC"),
    ],
)
def test_the_history_tells_how_a_job_ended(
    text: str, task: TaskId, state: str, code: int | None, signal: int, node: str
) -> None:
    ((found, row),) = answers.history_rows(text, NOW).items()
    assert (found, row.state, row.exit, row.signal, row.node) == (task, state, code, signal, node)
    assert row.started_at is not None
    assert row.run_s == pytest.approx((row.ended_at or 0) - row.started_at)


def test_the_history_tells_time_memory_and_reason_of_wrapped_lines() -> None:
    done = answers.history_rows(samples.BHIST_DONE, NOW)[TaskId(1962)]
    assert (done.cpu_s, done.run_s) == (0.5, 138.0)
    killed = answers.history_rows(samples.BHIST_RUNLIMIT, NOW)[TaskId(1963)]
    assert killed.state_text == "TERM_RUNLIMIT: job killed after reaching LSF run time limit"
    large = answers.history_rows(samples.BACCT_MEMLIMIT, NOW)[TaskId(4020)]
    assert (large.cpu_s, large.peak_memory_b) == (10.71, round(2.1 * 2**30))
    assert answers.history_rows(samples.BHIST_RUNNING, NOW) == {}


def test_a_forgotten_job_is_looked_for_in_the_history_and_then_in_accounting() -> None:
    asked, programs = client()
    nothing = said(err="No matching job found\n", status=255)
    programs.answers = {"bjobs": nothing, "bhist": nothing, "bacct": said(samples.BACCT_MEMLIMIT)}
    row = asked.show_job(TaskId(4020))
    assert isinstance(row, AccountRow)
    assert row.state == "TERM_MEMLIMIT"
    assert [line.split()[0] for line in programs.given] == ["bjobs", "bjobs", "bhist", "bacct"]
    programs.answers = {"bjobs": nothing, "bhist": nothing, "bacct": nothing}
    assert asked.show_job(TaskId(4020)) is None
    programs.answers = {"bjobs": nothing, "bhist": said(samples.BHIST_DONE)}
    assert isinstance(asked.show_job(TaskId(1962)), AccountRow)


def test_a_report_in_the_output_tells_of_memory_for_its_own_element_alone() -> None:
    assert answers.reports_out_of_memory(samples.REPORT, "4020[2]")
    assert not answers.reports_out_of_memory(samples.REPORT, "4020[3]")
    assert not answers.reports_out_of_memory(samples.REPORT, "")


# --------------------------------------------------------------------------------------------------------------- act


@pytest.mark.parametrize(
    ("answer", "is_done"),
    [
        (said(samples.BKILL_DONE), True),
        (said(err=samples.BKILL_OVER, status=255), True),
        (said(samples.BKILL_DONE, err=samples.BKILL_NONE, status=255), True),
        (said(err="Job <11>: User permission denied\n", status=255), False),
        (said(samples.BKILL_DONE, err="Job <12>: User permission denied\n", status=255), False),
        (said(err="Cannot connect to LSF. Please wait ...\n", status=255), False),
        (said(status=None), False),
    ],
)
def test_a_cancellation_is_done_once_nothing_is_left_to_kill(answer: ProgramResult, *, is_done: bool) -> None:
    asked, programs = client()
    programs.answers = {"bkill": answer}
    assert (asked.cancel([TaskId(11), TaskId(22, 4)]) is None) is is_done
    assert programs.given == ["bkill 11 22[5]"]


def test_all_jobs_of_a_name_are_killed_and_only_waiting_ones_when_asked() -> None:
    assert LsfDialect({}).cancel_named_call("k7-1-1", "jdoe").argv == ("bkill", "-u", "jdoe", "-J", "k7-1-1", "0")
    (call,) = LsfDialect({}).cancel_calls([TaskId(3)], waiting_only=True)
    assert call.argv == ("bkill", "-stat", "pend", "3")


def test_dependencies_are_conditions_on_jobs_elements_or_pairs() -> None:
    whole = BatchRecord(tag="a", name="a", members=((0, 1),), at=0.0, id=10)
    array = BatchRecord(tag="b", name="b", members=((1, 1), (2, 1)), at=0.0, id=11)
    records = {0: (whole, 0), 1: (array, 0), 2: (array, 1)}
    assert dependency_text([[0, 1, 2]], records) == "done(10) && done(11)"
    assert dependency_text([[0, 2]], records) == "done(10) && done(11[2])"
    assert dependency_text([[1], [2]], records) == "done(11[*])"
    assert LsfDialect({}).after_end_options([10, 11]) == ("-w", "ended(10) && ended(11)")
    assert LsfDialect({}).after_success_options([[0]], records) == ("-w", "done(10)", "-ti")


def test_facts_of_the_cluster() -> None:
    facts = cluster.cluster_facts(samples.LSID, samples.BPARAMS)
    assert (facts.version, facts.name, facts.max_array, facts.min_job_age_s) == ("10.1.0.8", "main", 500, 3600.0)
    assert cluster.cluster_facts(samples.LSID, "").max_array == 1000, "LSF's own default"


def test_variables_of_an_enclosing_job_do_not_reach_the_programs() -> None:
    inherited = {"PATH": "/bin", "LSB_JOBID": "7", "LSB_BJOBS_FORMAT": "x", "LS_JOBPID": "1", "LSF_ENVDIR": "/etc/lsf"}
    assert LsfDialect({}).environment(inherited) == {"PATH": "/bin", "LSF_ENVDIR": "/etc/lsf", "LSB_NTRIES": "2"}
    assert LsfDialect({"envdir": "/opt/lsf"}).environment(inherited)["LSF_ENVDIR"] == "/opt/lsf"
