"""What Slurm prints becomes records; texts are of Slurm 22.05.8, those of `29_3` and the like as captured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.services.batch.answers import SubmissionReply, SubmitOutcome, parse_duration, parse_size, parse_time
from longshore.services.batch.jobs import QueuePhase, TaskId
from longshore.services.slurm.answers import (
    ACCOUNT_FIELDS,
    GATHERED_FIELDS,
    REPLIES,
    SEPARATOR,
    account_rows,
    exit_status,
    gathered_rows,
    is_unknown_job,
    parse_boot_time,
    queue_rows,
    shown_row,
    shown_rows,
    stored_fields,
    task_ids,
)
from longshore.services.slurm.cluster import cluster_facts
from longshore.services.slurm.states import STATES, base_state
from longshore.system.programs import ProgramResult


def submitted_id(reply: str) -> int | None:
    return REPLIES.read(ProgramResult(argv=(), status=0, out=reply)).id


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("25\n", 25),
        ("3;testclu\n", 3),
        ("Submitted batch job 25\n", 25),
        ("Submitted batch job 25 on cluster blue\n", 25),
        ("*** Welcome to site ***\nyour quota: 12 of 40 GB\n4711\nhave a nice day\n", 4711),
        ("", None),
        ("Welcome\n", None),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified\n", None),
    ],
)
def test_the_id_is_found_in_the_reply(reply: str, found: int | None) -> None:
    assert submitted_id(reply) == found


@given(st.text(), st.integers(1, 2**31 - 1), st.text())
def test_an_id_on_a_line_of_its_own_is_found_behind_any_banner(before: str, number: int, after: str) -> None:
    banner = "".join(sign for sign in before + "x" if not sign.isspace())
    words = "".join(sign for sign in after + "x" if not sign.isspace() and not sign.isdecimal())
    assert submitted_id(f"{banner}x\n{number}\n{words} is said\n") == number


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        # It names what is not there, or asks for more than there is.
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", SubmitOutcome.REFUSED),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", SubmitOutcome.REFUSED),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
            SubmitOutcome.REFUSED,
        ),
        ("sbatch: error: Memory specification can not be satisfied", SubmitOutcome.REFUSED),
        (
            "sbatch: error: Batch job submission failed: Requested node configuration is not available",
            SubmitOutcome.REFUSED,
        ),
        ("sbatch: unrecognized option '--nonsense'", SubmitOutcome.REFUSED),
        # sbatch alone decides what is fatal, by the options of the job.
        ("sbatch: fatal: Invalid --distribution specification", SubmitOutcome.REFUSED),
        ("Welcome!\nsbatch: fatal: Something about --nodes of a later version", SubmitOutcome.REFUSED),
        # A limit on one job, where the policy denies what exceeds it.
        (
            "sbatch: error: QOSMaxCpuPerJobLimit\nsbatch: error: Job violates policy (job submit limit, user's size)",
            SubmitOutcome.REFUSED,
        ),
        ("sbatch: error: AssocMaxWallDurationPerJobLimit", SubmitOutcome.REFUSED),
        ("sbatch: error: QOSMinGRES", SubmitOutcome.REFUSED),
        # Nobody knows whether it would be said again.
        ("sbatch: error: Batch job submission failed: Unspecified error", SubmitOutcome.UNEXPLAINED),
        ("sbatch: error: a rule of this site", SubmitOutcome.UNEXPLAINED),
        ("sbatch: error: Batch job submission failed: Requested reservation is invalid", SubmitOutcome.UNEXPLAINED),
        # A condition of the centre, for such jobs or for all.
        *(
            (f"sbatch: error: Batch job submission failed: {text}", SubmitOutcome.CLOSED)
            for text in (
                "Required partition not available (inactive or drain)",
                "Partition in DOWN state",
                "Requested partition configuration not available now",
                "Required node not available (down, drained or reserved)",
                "Requested nodes are busy",
                "Access denied to requested reservation",
                "Requested reservation not usable now",
                "Requested reservation is in use",
                "Job can not start due to maintenance reservation.",
                "Licenses currently unavailable",
                "Required licenses are not available",
                "Burst Buffer resource limit exceeded",
                "Requested account has breached requested QOS usage threshold",
            )
        ),
        ("sbatch: error: AssocGrpCpuLimit", SubmitOutcome.CLOSED),
        ("sbatch: error: QOSGrpNodeLimit", SubmitOutcome.CLOSED),
        *(
            (f"sbatch: error: Batch job submission failed: {text}", SubmitOutcome.THROTTLED)
            for text in (
                "I/O error writing script/environment to file",
                "Invalid authentication credential",
                "Authentication credential expired",
                "Invalid job credential",
                "Error generating job credential",
                "Protocol authentication error",
                "Invalid user id",
                "System submissions disabled",
                "Requested operation is presently disabled",
                "Rate limit exceeded, please retry momentarily",
                "Slurm internal error, contact system administrator",
                "Slurm backup controller in standby mode",
                "Controller is in standby mode, try a different controller",
                "Unable to connect to database",
                "No space left on device",
            )
        ),
        # A filter of the site speaks of the moment, and Slurm of the request.
        (
            "sbatch: error: gpu is temporarily closed\nsbatch: error: Access/permission denied",
            SubmitOutcome.THROTTLED,
        ),
        # A smaller batch may fit under the limit.
        (
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\nJob violates accounting/QOS policy (job submit limit)",
            SubmitOutcome.TOO_LARGE,
        ),
        (
            "sbatch: error: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            SubmitOutcome.TOO_LARGE,
        ),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit", SubmitOutcome.TOO_LARGE),
        ("sbatch: error: AssocMaxSubmitJobLimit", SubmitOutcome.TOO_LARGE),
        ("sbatch: error: AssocGrpSubmitJobsLimit", SubmitOutcome.TOO_LARGE),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", SubmitOutcome.THROTTLED),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            SubmitOutcome.UNREACHABLE,
        ),
        (
            "sbatch: error: fetch_config: DNS SRV lookup failed\nsbatch: error: failed to fetch config",
            SubmitOutcome.UNREACHABLE,
        ),
        ("sbatch: fatal: Could not establish a configuration source", SubmitOutcome.UNREACHABLE),
        ("sbatch: fatal: slurm_init: unable to load configuration", SubmitOutcome.UNREACHABLE),
        ("sbatch: error: get_addr_info: getaddrinfo() failed: Name or service not known", SubmitOutcome.UNREACHABLE),
        # Whether it was accepted is unknown; what a broken connection brought is there soon.
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", SubmitOutcome.UNSURE),
        ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", SubmitOutcome.BROKEN),
        ("sbatch: error: Batch job submission failed: Connection reset by peer", SubmitOutcome.BROKEN),
    ],
)
def test_the_meaning_of_a_failed_submission(said: str, meant: SubmitOutcome) -> None:
    answer = ProgramResult(argv=("sbatch",), status=1, err=said)
    assert REPLIES.read(answer) == SubmissionReply(meant)


def test_the_meaning_of_other_replies() -> None:
    accepted = ProgramResult(argv=("sbatch",), status=0, out="29;blue\n")
    assert REPLIES.read(accepted) == SubmissionReply(SubmitOutcome.ACCEPTED, 29)
    without_id = ProgramResult(argv=("sbatch",), status=0, out="Welcome\n")
    assert REPLIES.read(without_id) == SubmissionReply(SubmitOutcome.UNSURE)
    silent = ProgramResult(argv=("sbatch",), status=None, err="Connection reset")
    assert REPLIES.read(silent) == SubmissionReply(SubmitOutcome.UNSURE)
    killed = ProgramResult(argv=("sbatch",), status=-9)
    assert REPLIES.read(killed) == SubmissionReply(SubmitOutcome.UNSURE)
    # A shell of `setup` that finds no program.
    missing = ProgramResult(argv=("sbatch",), status=127, err="sh: 1: exec: sbatch: not found")
    absent = ProgramResult(argv=("sbatch",), status=None, err="'sbatch' cannot be run", never_ran=True)
    assert REPLIES.read(missing) == REPLIES.read(absent) == SubmissionReply(SubmitOutcome.UNREACHABLE)


def test_rows_of_the_queue() -> None:
    text = (
        "1_2|1|PENDING|JobArrayTaskLimit|N/A||k7f3a-1-1\n"
        "1_0|2|RUNNING|None|2026-11-20T14:06:30|n1|k7f3a-1-1\n"
        "7|7|PENDING|JobHeldUser|N/A||odd|name\n"
        "not a row\n"
    )
    rows = list(queue_rows(text))
    assert [(str(row.id), row.state, row.reason, row.node, row.name) for row in rows] == [
        ("1_2", "PENDING", "JobArrayTaskLimit", "", "k7f3a-1-1"),
        ("1_0", "RUNNING", "", "n1", "k7f3a-1-1"),
        ("7", "PENDING", "JobHeldUser", "", "odd|name"),
    ]
    assert rows[0].started_at is None
    assert rows[1].started_at == parse_time("2026-11-20T14:06:30")


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("29", [TaskId(29)]),
        ("29_3", [TaskId(29, 3)]),
        ("29_[4-5%3]", [TaskId(29, 4), TaskId(29, 5)]),
        ("29_[0,2,4-8:2%1]", [TaskId(29, index) for index in (0, 2, 4, 6, 8)]),
        ("29_[99999999-999999999]", []),
        ("x", []),
        ("", []),
    ],
)
def test_the_tasks_that_an_id_stands_for(text: str, tasks: list[TaskId]) -> None:
    assert list(task_ids(text)) == tasks


@given(st.text())
def test_no_text_upsets_a_parser(text: str) -> None:
    list(queue_rows(text))
    account_rows(text)
    gathered_rows(text)
    stored_fields(text)
    submitted_id(text)
    cluster_facts(text)
    parse_size(text)
    parse_duration(text)
    parse_time(text)
    exit_status(text)
    assert REPLIES.classify(text) in SubmitOutcome
    assert STATES.phase(base_state(text)) in QueuePhase


def account(*rows: tuple[str, ...]) -> str:
    return "".join(SEPARATOR.join(row) + "\n" for row in rows)


def test_accounting_joins_the_lines_of_a_job() -> None:
    began, over = "2026-11-20T14:06:30", "2026-11-20T14:06:33"
    text = account(
        ("2", "2", "FAILED", "0:9", began, over, "3", "00:00:01", "", "50M", "n1", "None"),
        ("2.batch", "2.batch", "CANCELLED by 0", "0:9", began, over, "3", "00:00:01", "113561K", "", "n1", ""),
        ("2.0", "2.0", "CANCELLED by 0", "0:9", began, over, "3", "00:00.500", "223704K", "", "n1", ""),
        ("6_4", "9", "CANCELLED by 1000", "0:0", began, "Unknown", "", "", "", "50M", "None assigned", "None"),
    )
    rows = account_rows(text)
    job = rows[TaskId(2)]
    assert (job.state, job.exit, job.signal, job.peak_memory_b) == ("FAILED", 0, 9, 223704 * 1024)
    assert (job.run_s, job.cpu_s) == (3.0, 1.0)
    cancelled = rows[TaskId(6, 4)]
    assert (cancelled.state, cancelled.state_text, cancelled.ended_at) == ("CANCELLED", "CANCELLED by 1000", None)
    assert len(ACCOUNT_FIELDS) == 12


def test_the_fields_that_are_kept_are_those_of_the_page() -> None:
    assert len(GATHERED_FIELDS) == 22
    began, over = "2026-11-20T14:06:30", "2026-11-20T14:06:33"
    values = {name: f"of {name}" for name in GATHERED_FIELDS} | {"Submit": "2026-11-20T14:06:20", "Start": began}
    own = ("9_1", "12", "COMPLETED", "0:0", began, over, "3", "00:00:01", "", "50M", "n1", "None")
    step = ("9_1.batch", "12.batch", "COMPLETED", "0:0", began, over, "3", "00:00:01", "9M", "", "n1", "")
    text = account((*own, *(values | {"ReqGRES": ""}).values()), (*step, *["" for _ in values]), ("torn",))
    rows = gathered_rows(text)
    assert list(rows) == [TaskId(9, 1)]
    row = rows[TaskId(9, 1)]
    assert row.gathered == values | {"ReqGRES": ""}
    assert (row.queue_s, row.peak_memory_b) == (10.0, 9 << 20)


def test_fields_that_a_version_does_not_have_are_not_asked_for() -> None:
    # Of Slurm 22.05.8, which has no ReqGRES any more and spells one otherwise.
    there = "Account AllocNodes AllocTRES ConsumedEnergyRaw CPUTimeRAW End JobID\nState"
    assert stored_fields(there) == (
        "Account",
        "AllocNodes",
        "AllocTRES",
        "ConsumedEnergyRaw",
        "CPUTimeRaw",
        "End",
        "JobID",
        "State",
    )
    rows = gathered_rows(
        account(("2", "2", "COMPLETED", "0:0", "", "", "3", "", "", "", "", "", "test", "")), ["Account", "X"]
    )
    assert rows[TaskId(2)].gathered == {"Account": "test", "ConsumedEnergyRaw": "", "ReqGRES": ""}
    assert rows[TaskId(2)].queue_s is None


def test_requested_generic_resources_are_told_by_versions_without_a_field_of_their_own() -> None:
    own = ("2", "2", "COMPLETED", "0:0", "", "", "3", "", "", "", "", "")
    asked = "billing=2,cpu=2,gres/gpu:a100=2,gres/nic=1,mem=1G,node=1"
    gathered = gathered_rows(account((*own, asked, "70", "/x")), ["ReqTRES", "ConsumedEnergyRaw", "WorkDir"])
    assert gathered[TaskId(2)].gathered == {
        "ReqTRES": asked,
        "ReqGRES": "gpu:a100:2,nic:1",
        "ConsumedEnergyRaw": "70",
        "WorkDir": "/x",
    }


def test_what_the_controller_shows() -> None:
    text = (
        "JobId=2 JobName=a b=c JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0 RunTime=00:00:03 "
        "StartTime=2026-11-20T14:06:30 EndTime=2026-11-20T14:06:33 BatchHost=n1 Command=/x y\nJobId=3 JobState=RUNNING"
    )
    row = shown_row(TaskId(2), text)
    assert (row.state, row.exit, row.signal, row.run_s, row.node) == ("FAILED", 3, 0, 3.0, "n1")


@pytest.mark.parametrize(
    ("text", "number"),
    [("113561K", 113561 * 1024), ("50M", 50 * 2**20), ("1.50G", 3 * 2**29), ("0", 0), ("", None)],
)
def test_amounts(text: str, number: int | None) -> None:
    assert parse_size(text) == number


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("00:00:07", 7.0),
        ("1-02:03:04", 93784.0),
        ("00:01.250", 1.25),
        ("01:30", 90.0),
        ("", None),
        ("INVALID", None),
    ],
)
def test_lengths_of_time(text: str, length: float | None) -> None:
    assert parse_duration(text) == length


def test_facts_of_a_cluster() -> None:
    text = """Configuration data as of 2026-11-20T14:06:30
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = testclu
GresTypes               = gpu
Licenses                = lic_a:3,lic_b:1
MaxArraySize            = 10001
MaxJobCount             = 50000
MinJobAge               = 300 sec
PriorityParameters      = (null)
SLURM_VERSION           = 22.05.8
"""
    facts = cluster_facts(text)
    assert (facts.version, facts.name, facts.max_array, facts.max_jobs) == ("22.05.8", "testclu", 10000, 50000)
    assert (facts.min_job_age_s, facts.accounting, facts.priority_parameters) == (300.0, True, "")
    assert (facts.licences, facts.gres) == (("lic_a", "lic_b"), ("gpu",))
    assert not cluster_facts("AccountingStorageType = accounting_storage/none\n").accounting


def test_the_table_of_states_is_total() -> None:
    assert not STATES.causes.keys() & {*STATES.waiting, *STATES.running}, "a state has one phase"
    assert STATES.phase(base_state("CANCELLED by 1000")) is QueuePhase.OVER
    assert STATES.phase("COMPLETING") is QueuePhase.RUNNING
    assert STATES.phase("SUSPENDED") is QueuePhase.WAITING
    assert STATES.phase("A_WORD_OF_TOMORROW") is QueuePhase.UNKNOWN
    assert base_state("CANCELLED+") == "CANCELLED"


MANY_DIGITS = "9" * 5000


def test_numbers_beyond_all_bounds_are_none() -> None:
    assert submitted_id(MANY_DIGITS) is None
    assert list(task_ids(MANY_DIGITS)) == []
    assert list(task_ids(f"29_{MANY_DIGITS}")) == []
    assert list(task_ids(f"29_[{MANY_DIGITS},3]")) == [TaskId(29, 3)]
    assert exit_status(f"{MANY_DIGITS}:{MANY_DIGITS}") == (0, 0)
    assert parse_size(f"{MANY_DIGITS}G") is None
    assert parse_size(f"{'9' * 18}E") is None, "no document holds it"
    assert parse_duration(f"{MANY_DIGITS}:00:01") is None
    assert cluster_facts(f"MaxArraySize = {MANY_DIGITS}\nMinJobAge = {MANY_DIGITS} sec").max_array is None


# --------------------------------------------------------------------------------------------------- pending arrays


def expression(indices: list[int]) -> str:
    """Write ascending indices as Slurm does: runs as ``a-b``."""
    spans: list[list[int]] = []
    for index in indices:
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


@given(st.sets(st.integers(0, 5000), min_size=1, max_size=60), st.sampled_from(["", "%1", "%250"]))
def test_every_form_of_a_pending_array_stands_for_its_tasks(indices: set[int], limit: str) -> None:
    text = f"29_[{expression(sorted(indices))}{limit}]"
    assert [str(task) for task in task_ids(text)] == [f"29_{index}" for index in sorted(indices)]


@given(st.integers(0, 900), st.integers(1, 40), st.integers(1, 9), st.sampled_from(["", "%2"]))
def test_an_array_with_a_step_stands_for_its_tasks(first: int, number: int, step: int, limit: str) -> None:
    indices = range(first, first + number * step, step)
    text = f"29_[{first}-{indices[-1]}:{step}{limit}]"
    assert [task.index for task in task_ids(text)] == list(indices)


@given(st.sets(st.integers(0, 5000), min_size=2, max_size=60), st.integers(4, 64))
def test_an_expression_cut_short_names_no_task_that_is_not_in_it(indices: set[int], length: int) -> None:
    whole = expression(sorted(indices))
    shown = whole if len(whole) <= length - 3 else f"{whole[: length - 4]}..."
    tasks = list(task_ids(f"29_[{shown}]"))
    assert {task.index for task in tasks} - {None} <= indices
    assert (TaskId(29) in tasks) is shown.endswith("...")


def test_tasks_that_share_a_line_of_accounting_get_a_row_each() -> None:
    fields = dict.fromkeys(ACCOUNT_FIELDS, "") | {
        "JobID": "3_[1,3-4]", "JobIDRaw": "3", "State": "CANCELLED by 0", "ExitCode": "0:0"
    }  # fmt: skip
    rows = account_rows(SEPARATOR.join(fields[name] for name in ACCOUNT_FIELDS))
    assert {str(task): row.state for task, row in rows.items()} == dict.fromkeys(("3_1", "3_3", "3_4"), "CANCELLED")


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Invalid job id specified",
        "Job 2_0 not found",
        "Job 41 not found",
        "Job 12+1 not found",
        "Job ID 41 not found",
        "Invalid job_id 41",
        "scontrol: Job 2_[1-4] not found",
    ],
)
def test_the_controller_says_in_many_words_that_it_has_no_such_job(said: str) -> None:
    assert is_unknown_job(said)


@pytest.mark.parametrize(
    "said", ["", "slurm_load_jobs error: Unable to contact slurm controller", "scontrol: command not found"]
)
def test_a_controller_in_trouble_says_nothing_of_a_job(said: str) -> None:
    assert not is_unknown_job(said)


def test_an_array_is_shown_with_a_line_per_task() -> None:
    rows = shown_rows(
        "JobId=40 ArrayJobId=29 ArrayTaskId=3 JobName=a JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0\n"
        "JobId=29 ArrayJobId=29 ArrayTaskId=5-6%2 JobName=a JobState=PENDING Reason=Priority ExitCode=0:0\n"
        "Job 2_0 not found\n"
    )
    assert {str(task): (row.state, row.exit) for task, row in rows.items()} == {
        "29_3": ("FAILED", 3), "29_5": ("PENDING", 0), "29_6": ("PENDING", 0)
    }  # fmt: skip
    (folded,) = shown_rows("JobId=2 ArrayJobId=2 ArrayTaskId=4294967294 JobName=arr JobState=CANCELLED\n")
    assert folded == TaskId(2)


@pytest.mark.parametrize(
    ("text", "booted_at"),
    [
        (
            "NodeName=n1 BootTime=2026-11-20T14:06:30 A=b\nNodeName=n2 BootTime=2026-11-20T14:06:20\n",
            "2026-11-20T14:06:20",
        ),
        ("NodeName=n1 BootTime=2026-11-20T14:06:30\nNodeName=n2 State=DOWN BootTime=None\n", None),
        ("Node n7 not found\n", None),
        ("", None),
    ],
)
def test_the_boot_of_nodes_is_that_of_the_earliest(text: str, booted_at: str | None) -> None:
    assert parse_boot_time(text) == (parse_time(booted_at) if booted_at else None)
