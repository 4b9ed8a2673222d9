"""What Grid Engine prints becomes records; texts are of Son of Grid Engine 8.1.9, as captured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.states import Cause
from longshore.services.batch.answers import SubmitOutcome
from longshore.services.batch.dialect import ProgramCall
from longshore.services.batch.jobs import QueuePhase, TaskId
from longshore.services.batch.ping import ConfiguredNames, describe_limits
from longshore.services.sge.answers import (
    REPLIES,
    STATES,
    final_state,
    gathered_rows,
    local_time,
    parse_bytes,
    parse_seconds,
    queue_rows,
    queue_state,
    shown_row,
)
from longshore.services.sge.cluster import cluster_facts
from longshore.services.sge.dialect import SgeDialect
from longshore.system.programs import ProgramResult

DIALECT = SgeDialect({})


def answer(status: int | None, out: str = "", err: str = "") -> ProgramResult:
    return ProgramResult(argv=("x",), status=status, out=out, err=err)


@pytest.mark.parametrize(
    ("out", "number"),
    [
        ("1\n", 1),
        ("29.1-6:1\n", 29),
        ("*** Welcome ***\n4711\nhave 3 nice days\n", 4711),
        ("Welcome\n", None),
        ("", None),
    ],
)
def test_the_id_is_found_in_the_reply(out: str, number: int | None) -> None:
    reply = REPLIES.read(answer(0, out))
    assert reply.id == number
    assert reply.outcome is (SubmitOutcome.UNSURE if number is None else SubmitOutcome.ACCEPTED)


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ('unknown resource "nosuch"', SubmitOutcome.REFUSED),
        ("error: no suitable queues", SubmitOutcome.REFUSED),
        ('Job was rejected because job requests unknown queue "nosuch.q"', SubmitOutcome.REFUSED),
        ('job rejected: the requested parallel environment "nope" does not exist', SubmitOutcome.REFUSED),
        ('job rejected: the requested project "nop" does not exist', SubmitOutcome.REFUSED),
        ('denied: "9a" is not a valid object name (cannot start with a digit)', SubmitOutcome.REFUSED),
        ("Colon (':') not allowed in objectname", SubmitOutcome.REFUSED),
        ('attribute "h_rt" is not a time value', SubmitOutcome.REFUSED),
        ("job rejected: you tried to submit a job with more than 75000 tasks", SubmitOutcome.TOO_LARGE),
        ("job rejected: Only 10 jobs are allowed per user (current job count: 10)", SubmitOutcome.TOO_LARGE),
        ("Error reading answer list from qmaster", SubmitOutcome.UNSURE),
        (
            'unable to send message to qmaster using port 1 on host "localhost": got send error',
            SubmitOutcome.UNREACHABLE,
        ),
        ("a rule of this site", SubmitOutcome.UNEXPLAINED),
        ('denied: host "n7" is no submit host', SubmitOutcome.UNEXPLAINED),
        ("job 7 was rejected because it can't be written: No space left on device", SubmitOutcome.THROTTLED),
        ('error writing object "7" to spooling database', SubmitOutcome.THROTTLED),
        ("JSV temporarily rejected job", SubmitOutcome.THROTTLED),
        ("JSV rejected job", SubmitOutcome.UNEXPLAINED),
        ("job rejected: only 500 jobs are allowed per cluster", SubmitOutcome.TOO_LARGE),
        # A name that a user chose says nothing.
        ('unknown resource "disk full, try again temporarily"', SubmitOutcome.REFUSED),
    ],
)
def test_refusals_of_qsub(message: str, outcome: SubmitOutcome) -> None:
    assert REPLIES.read(answer(1, err=f"Unable to run job: {message}\nExiting.\n")).outcome is outcome


def test_a_qsub_without_an_answer_is_unsure() -> None:
    assert REPLIES.read(answer(None)).outcome is SubmitOutcome.UNSURE


def test_options_that_qsub_does_not_know_are_hopeless() -> None:
    reply = REPLIES.read(answer(1, err='qsub: invalid priority "-2000".  Must be an integer from -1023 to 1024\n'))
    assert reply.outcome is SubmitOutcome.REFUSED


QUEUE = """<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/qstat.xsd">
  <queue_info>
    <job_list state="running">
      <JB_job_number>26</JB_job_number>
      <JAT_prio>0.50000</JAT_prio>
      <JB_name>a &amp; b</JB_name>
      <JB_owner>root</JB_owner>
      <state>r</state>
      <JAT_start_time>2026-11-23T14:10:47</JAT_start_time>
      <queue_name>all.q@localhost</queue_name>
      <slots>1</slots>
      <tasks>1</tasks>
    </job_list>
  </queue_info>
  <job_info>
    <job_list state="pending">
      <JB_job_number>26</JB_job_number>
      <JB_name>a &amp; b</JB_name>
      <state>qw</state>
      <queue_name></queue_name>
      <tasks>2,4-8:2</tasks>
    </job_list>
    <job_list state="pending">
      <JB_job_number>25</JB_job_number>
      <JB_name>ee</JB_name>
      <state>Eqw</state>
      <queue_name></queue_name>
    </job_list>
  </job_info>
</job_info>
"""


def test_tasks_that_share_a_row_get_one_each_counted_from_0() -> None:
    first, *others = queue_rows(QUEUE)
    assert (first.id, first.node, first.name, first.reason) == (TaskId(26, 0), "localhost", "a & b", "")
    assert first.started_at == local_time("Mon Nov 23 14:10:47 2026")
    assert [str(row.id) for row in others] == ["26_1", "26_3", "26_5", "26_7", "25"]
    assert [DIALECT.task_name(row.id) for row in others[:2]] == ["26.2", "26.4"]
    assert others[-1].reason == "error state (Eqw)"
    assert others[-1].reason in STATES.held_reasons


def test_half_an_answer_of_qstat_is_none() -> None:
    call = SgeDialect({"bin": "/sge/bin"}).queue_call("me")
    assert DIALECT.read_answer(call, answer(0, QUEUE)).ok
    for text in (QUEUE[:-30], ""):
        read = DIALECT.read_answer(call, answer(0, text))
        assert not read.ok
        assert read.why == "qstat's answer is cut short"
    assert DIALECT.read_answer(DIALECT.show_call(TaskId(1)), answer(0, "====")).ok


@pytest.mark.parametrize(
    ("letters", "phase"),
    [
        ("qw", QueuePhase.WAITING),
        ("hqw", QueuePhase.WAITING),
        ("hRwq", QueuePhase.WAITING),
        ("Eqw", QueuePhase.WAITING),
        ("Rq", QueuePhase.WAITING),
        ("S", QueuePhase.WAITING),
        ("t", QueuePhase.RUNNING),
        ("r", QueuePhase.RUNNING),
        ("hr", QueuePhase.RUNNING),
        ("Rr", QueuePhase.RUNNING),
        ("dr", QueuePhase.RUNNING),
        ("zz", QueuePhase.UNKNOWN),
    ],
)
def test_the_phase_of_each_state(letters: str, phase: QueuePhase) -> None:
    assert STATES.phase(queue_state(letters)) is phase


def account(**more: str) -> str:
    fields = {
        "qname": "all.q",
        "hostname": "localhost",
        "jobname": "x",
        "jobnumber": "42",
        "taskid": "undefined",
        "qsub_time": "Mon Nov 23 14:11:20 2026",
        "start_time": "Mon Nov 23 14:11:22 2026",
        "end_time": "Mon Nov 23 14:11:26 2026",
        "slots": "1",
        "failed": "0",
        "exit_status": "0",
        "ru_wallclock": "4s",
        "cpu": "0.136s",
        "maxvmem": "0.000B",
        "category": "",
    } | more
    return "=" * 62 + "\n" + "".join(f"{name:<12} {value}\n" for name, value in fields.items())


_LIMIT = "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit"
_AFTER = "100 : assumedly after job"


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, None),
        ({"exit_status": "3"}, Cause.EXIT),
        ({"failed": _AFTER, "exit_status": "139                  (Segmentation fault)"}, Cause.EXIT),
        # Memory and time have one code: what was used tells them apart.
        ({"failed": _LIMIT, "exit_status": "137", "category": "-l h_rt=3"}, Cause.WALLTIME),
        (
            {"failed": _LIMIT, "exit_status": "137", "category": "-l h_vmem=200M", "maxvmem": "432.918MB"},
            Cause.OOM,
        ),
        (
            {"failed": _LIMIT, "exit_status": "137", "category": "-l h_rt=60,h_vmem=200M", "maxvmem": "432.918MB"},
            Cause.OOM,
        ),
        (
            {"failed": _LIMIT, "exit_status": "137", "category": "-l h_rt=4,h_vmem=200M", "maxvmem": "10MB"},
            Cause.WALLTIME,
        ),
        # Seen too late: nothing but memory is left.
        ({"failed": _LIMIT, "exit_status": "137", "category": "-u x -l h_vmem=200M -pe smp 2"}, Cause.OOM),
        ({"failed": _LIMIT, "exit_status": "137"}, Cause.WALLTIME),
        ({"failed": _AFTER, "exit_status": "138", "category": "-l s_rt=3"}, Cause.WALLTIME),
        ({"failed": _AFTER, "exit_status": "137"}, Cause.CANCELLED),
        (
            {"failed": _AFTER, "exit_status": "137", "slots": "2", "category": "-l h_vmem=100M", "maxvmem": "120M"},
            Cause.CANCELLED,
        ),
        (
            {"failed": _AFTER, "exit_status": "137", "slots": "2", "category": "-l h_vmem=100M", "maxvmem": "199M"},
            Cause.OOM,
        ),
        ({"failed": "21  : in recognizing job", "exit_status": "0"}, Cause.LOST),
    ],
)
def test_the_cause_of_each_end(fields: dict[str, str], cause: Cause | None) -> None:
    (row,) = gathered_rows(account(**fields)).values()
    assert STATES.cause(row.state) is cause
    assert STATES.phase(row.state) is QueuePhase.OVER


def test_a_lost_run_of_a_rescheduled_job_is_no_end() -> None:
    first = account(failed="25  : rescheduling", exit_status="99")
    (row,) = gathered_rows(first).values()
    assert STATES.phase(row.state) is QueuePhase.WAITING
    (row,) = gathered_rows(first + account(exit_status="7")).values()
    assert (row.exit, STATES.phase(row.state)) == (7, QueuePhase.OVER)


def test_the_account_of_a_job_on_several_hosts_is_not_that_of_its_commands() -> None:
    job = account(granted_pe="mpi2", exit_status="3")
    command = account(
        granted_pe="mpi2",
        exit_status="129",
        hostname="node2",
        start_time="Mon Nov 23 14:11:23 2026",
        end_time="Mon Nov 23 14:11:25 2026",
    )
    for text in (job + command, command + job, command + job + command):
        (row,) = gathered_rows(text).values()
        assert (row.exit, row.node) == (3, "localhost")
    # A later run of the job counts.
    later = {"start_time": "Mon Nov 23 15:00:00 2026", "end_time": "Mon Nov 23 15:00:01 2026"}
    (row,) = gathered_rows(job + account(granted_pe="mpi2", exit_status="4", **later)).values()
    assert row.exit == 4
    (row,) = gathered_rows(job + account(granted_pe="mpi2", exit_status="4", end_time="-/-")).values()
    assert row.exit == 4


def test_an_account_has_times_and_all_that_is_stored() -> None:
    rows = gathered_rows(account(taskid="3", maxvmem="432.918MB") + account(jobnumber="43", exit_status="139"))
    row = rows[TaskId(42, 2)]
    assert (row.run_s, row.cpu_s, row.queue_s, row.peak_memory_b) == (4.0, 0.136, 2.0, round(432.918 * 1024**2))
    assert row.gathered["qname"] == "all.q"
    assert "category" not in row.gathered
    assert (rows[TaskId(43)].exit, rows[TaskId(43)].signal) == (0, 11)


@pytest.mark.parametrize(
    ("err", "is_answer"),
    [
        ("error: job id 2 not found\n", True),
        ("error: job name survey not found\n", True),
        ("/sge/default/common/accounting: No such file or directory\nno jobs running since startup\n", True),
        ('error: SGE_ROOT directory "/nonexist" doesn\'t exist\n', False),
        ("sh: 1: qacct: not found\n", False),
    ],
)
def test_that_accounting_has_no_record_is_an_answer(err: str, *, is_answer: bool) -> None:
    one, *_ = DIALECT.accounting_calls([TaskId(1)], "")
    many, *_ = DIALECT.accounting_calls(map(TaskId, range(9)), "")
    assert DIALECT.read_answer(one, answer(1, err=err)).ok is is_answer
    # The status of a pipe is that of its last program.
    assert DIALECT.read_answer(many, answer(0, err=err)).ok is is_answer


@pytest.mark.parametrize(
    ("status", "out", "err", "done"),
    [
        (0, "root has registered the job 3 for deletion\n", "", True),
        (1, 'root has deleted job 2\ndenied: job "99999" does not exist\n', "", True),
        (1, "The job x of user(s) root does not exist\n", "", True),
        (1, "", "error: commlib error: got select error (Connection refused)\n", False),
        (1, "", "", False),
        (None, "", "", False),
    ],
)
def test_that_a_job_is_gone_already_is_no_failure_of_qdel(
    status: int | None, out: str, err: str, *, done: bool
) -> None:
    assert DIALECT.read_answer(ProgramCall(("/sge/bin/qdel", "2")), answer(status, out, err)).ok is done


def test_a_shown_job_is_not_over() -> None:
    text = "=====\njob_number:                 25\nowner:   root\nerror reason          1:      can't chdir to /x\n"
    row = shown_row(TaskId(25), text)
    assert row is not None
    assert (row.state, row.reason) == ("Eqw", "can't chdir to /x")
    assert shown_row(TaskId(26), text) is None
    assert DIALECT.parse_shown(TaskId(1), answer(1, err="Following jobs do not exist: \n1\n")) is None


def test_facts() -> None:
    config = "max_aj_tasks                 75000\nmax_u_jobs  0\nreporting_params  accounting=true \\\n  joblog=false\n"
    complexes = "#name shortcut type\nh_vmem h_vmem MEMORY <= YES YES 0 0\nmy_mem mm MEMORY <=\ngpu gpu INT <=\n"
    facts = cluster_facts(config, complexes)
    assert (facts.max_array, facts.max_jobs, facts.max_user_jobs, facts.accounting) == (75000, None, None, True)
    limited = cluster_facts("max_jobs 5000\nmax_u_jobs 200\n", "")
    assert describe_limits(limited, ConfiguredNames(), (), {}) == "5,000 jobs of all users; 200 jobs of each user"
    assert facts.byte_resources == ("h_vmem", "h_vmem", "my_mem", "mm")
    assert not cluster_facts("reporting_params accounting=false reporting=true", "").accounting


def test_values() -> None:
    assert [parse_bytes(text) for text in ("200M", "1.5G", "0.000B", "1k", "x")] == [200 << 20, 3 << 29, 0, 1000, 0]
    assert [parse_seconds(text) for text in ("3600", "1:00:00")] == [3600.0, 3600.0]
    assert {parse_seconds(text) for text in ("INFINITY", "")} == {float("inf")}
    assert local_time("-/-") is None


@given(st.text())
def test_no_text_is_too_odd_for_a_parser(text: str) -> None:
    list(queue_rows(f"<job_list>{text}</job_list>{text}"))
    gathered_rows(text)
    cluster_facts(text, text)
    shown_row(TaskId(1), text)
    assert STATES.phase(final_state(0, 0, {"category": text, "maxvmem": text})) is QueuePhase.OVER
