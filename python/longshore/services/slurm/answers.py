"""What sbatch, squeue, sacct and scontrol answer on jobs, as rows and replies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from longshore.services.batch.answers import (
    SubmitOutcome,
    SubmitReplies,
    parse_duration,
    parse_number,
    parse_size,
    parse_spans,
    parse_time,
    seconds_between,
)
from longshore.services.batch.jobs import AccountRow, QueueRow, TaskId
from longshore.services.slurm.states import base_state

# The texts of sbatch's errors are those of ``slurm_strerror``
# (``src/common/slurm_errno.c`` of Slurm; those of 22.05 were seen), and the reasons of limits that sbatch prints on a
# line before (https://slurm.schedmd.com/job_reason_codes.html). What begins with ``sbatch: fatal:`` is decided by
# sbatch alone: unless its configuration or credential fails, it is about the options of the job. "Requested reservation
# is invalid" does not tell a wrong name from a reservation that is over or not made yet, so it is no refusal of the
# request. The general text of a violated policy names no limit: where sbatch prints none before it, it counts as the
# limit on submitted jobs, which passes.


REPLIES: Final = SubmitReplies(
    accepted=re.compile(r"(?:Submitted batch job )?([0-9]{1,18})(?:;\S+| on cluster \S+)?"),
    errors=(
        # A slow reply may still come; what a broken connection had brought is there soon.
        (SubmitOutcome.UNSURE, "timed out"),
        (SubmitOutcome.BROKEN, "Connection reset|Transport endpoint|Zero Bytes were transmitted"),
        (SubmitOutcome.UNSURE, "Unexpected message received|Header lengths are longer"),
        (SubmitOutcome.UNSURE, "Communication connection failure|Message (send|receive) failure"),
        # No controller was reached, or no configuration names one.
        (
            SubmitOutcome.UNREACHABLE,
            (
                r"Unable to contact slurm controller|Connection refused|DNS SRV lookup failed"
                r"|failed to fetch (remote )?config|Could not establish a configuration source"
                r"|Unable to (load|process) configuration|Unable to establish controller"
                r"|Unable to (resolve|establish control machine)|getaddrinfo\(\) failed|No route to host"
                r"|Network is unreachable|Can't find an address, check slurm.conf"
            ),
        ),
        # A limit on one job, which only another request meets.
        (SubmitOutcome.REFUSED, r"(Assoc|QOS)M(ax|in)\w*Per(Job|Node)|QOSMin\w|(Assoc|QOS)MaxWall\w*"),
        (
            SubmitOutcome.TOO_LARGE,
            (
                r"submit limit|QOSMax\w*Submit|AssocMax\w*Submit|(Assoc|QOS)Grp\w*Submit|Grp\w*Submit\w*Limit"
                r"|MaxJobCount|too many jobs"
            ),
        ),
        (
            SubmitOutcome.THROTTLED,
            (
                r"temporarily unable to accept job|Resource temporarily unavailable|Unable to create job record"
                r"|connect failure|Address already in use|in standby mode|currently unable to|Rate limit exceeded"
                r"|Protocol authentication error|Munge|Invalid (authentication|job) credential|auth(/| )plugin"
                r"|(Authentication|Job) credential (expired|replayed|revoked)|Cannot unpack credential"
                r"|Error generating job credential|Token Generation failed|Invalid (user|group) id\b"
                r"|Unable to resolve (user|group) ID|submissions disabled|presently disabled|internal error"
                r"|I/O error writing script|Unable to connect to database|Database connection|shutting down"
            ),
        ),
        (
            SubmitOutcome.CLOSED,
            (
                r"Required partition not available|Partition in DOWN state|Partition is in use"
                r"|Requested partition configuration not available now|Required node not available"
                r"|Requested nodes are busy|(Assoc|QOS)(Max|Grp)\w*|breached requested QOS usage threshold"
                r"|Access denied to requested reservation|Requested reservation (is in use|not usable now)"
                r"|maintenance reservation|licenses? [\w ]*(unavailable|not available)|Burst Buffer resource limit"
                r"|Waiting for burst buffer|power not available|Max powered up nodes|PrologSlurmctld is still running"
                r"|Required ports are in use|No eligible clusters"
            ),
        ),
        (SubmitOutcome.UNEXPLAINED, "Requested reservation is invalid"),
        (
            SubmitOutcome.REFUSED,
            (
                r"^\s*sbatch: fatal:|\n\s*sbatch: fatal:"
                r"|Invalid (partition|qos|account|wckey|license|feature|generic resource|gres|job array|node name"
                r"|trackable resource|time|--|mcs_label|preferred feature|container id)|No partition specified"
                r"|Requested time limit is invalid|Time limit specification required|Job size specification needs"
                r"|Requested (node|topology) configuration is not available|Memory specification can ?not be satisfied"
                r"|Memory required by task is not available|(Node|CPU|Task) count specification invalid"
                r"|Task distribution specification invalid|Requested nodes not in this partition"
                r"|More processors requested than permitted|(unrecognized|invalid) option|ambiguous"
                r"|does not look like a batch script|Job script not specified|Pathname of a file"
                r"|Access/permission denied|not permitted to use this (partition|account|qos)"
                r"|Burst Buffer (request invalid|permission denied)|not supported on this system"
                r"|Unsupported|requires (an|one) argument|Job dependency problem|Circular job dependency"
            ),
        ),
    ),
)


SEPARATOR: Final = "\x1f"
"""Separator of sacct's fields: a character that no job name contains."""

QUEUE_FORMAT: Final = "%i|%A|%T|%r|%S|%N|%j"
"""Fields of squeue (`queue_rows`): id, own id, state, reason, start, nodes, and the name, which may be anything."""

ACCOUNT_FIELDS: Final = (
    *("JobID", "JobIDRaw", "State", "ExitCode", "Start", "End", "ElapsedRaw", "TotalCPU", "MaxRSS", "ReqMem"),
    *("NodeList", "Reason"),
)
"""Fields of sacct that decide outcomes (`account_rows`)."""

GATHERED_FIELDS: Final = (
    *("Account", "AllocNodes", "AllocTRES", "ConsumedEnergyRaw", "CPUTimeRaw", "End", "ExitCode", "JobID", "JobName"),
    *("NCPUS", "NNodes", "QOS", "ReqGRES", "ReqMem", "ReqNodes", "ReqTRES", "Start", "State", "Submit", "UID", "User"),
    "WorkDir",
)
"""Fields of sacct that are stored with an attempt; those of buildtest's page on batch schedulers."""


def queue_rows(output: str) -> Iterator[QueueRow]:
    """Parse ``squeue --noheader --format`` `QUEUE_FORMAT`; tasks that share a row get one row each."""
    for line in output.splitlines():
        fields = line.split("|", 6)
        if len(fields) != 7:
            continue
        number, raw, state, reason, start, nodes, name = fields
        for task in task_ids(number):
            yield QueueRow(
                id=task,
                raw_id=raw.strip(),
                state=state.strip(),
                reason="" if reason.strip() == "None" else reason.strip(),
                started_at=parse_time(start),
                node=nodes.strip(),
                name=name,
            )


def task_ids(text: str) -> Iterator[TaskId]:
    """Expand ``29``, ``29_3`` or ``29_[0-2,5-9:2%3]`` to task ids.

    An expression that Slurm cut short (``29_[1,3,...]``) also stands for the array as a whole, ``29``.
    """
    # The script of a heterogeneous job runs in its first component: 12+0, 12+1.
    job, underscore, tasks = text.strip().removesuffix("+0").partition("_")
    number = parse_number(job)
    if number is None:
        return
    if not underscore or "..." in tasks or tasks in {"*", "[*]"}:
        yield TaskId(number)
    yield from (TaskId(number, index) for index in parse_spans(tasks.strip("[]").partition("%")[0]))


def stored_fields(helpformat: str) -> tuple[str, ...]:
    """Return the `GATHERED_FIELDS` in ``sacct --helpformat``: sacct refuses a query with an unknown field."""
    supported = {word.lower() for word in helpformat.split()}
    return tuple(name for name in GATHERED_FIELDS if name.lower() in supported)


def gathered_rows(text: str, stored: Sequence[str] = GATHERED_FIELDS) -> dict[TaskId, AccountRow]:
    """Parse sacct's output with `ACCOUNT_FIELDS`, followed by fields that are stored as they are."""
    own_rows: list[str] = []
    gathered: dict[TaskId, dict[str, str]] = {}
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) != len(ACCOUNT_FIELDS) + len(stored):
            continue
        own_rows.append(SEPARATOR.join(fields[: len(ACCOUNT_FIELDS)]))
        tasks = list(task_ids(fields[0]))
        if len(tasks) == 1:
            values = zip(stored, fields[len(ACCOUNT_FIELDS) :], strict=True)
            gathered[tasks[0]] = _with_all_fields({name: value for name, value in values if value})
    rows = account_rows("\n".join(own_rows))
    for task, found in gathered.items():
        if task in rows:
            waited = seconds_between(parse_time(found.get("Submit", "")), parse_time(found.get("Start", "")))
            # Start and end are written separately; only the start brings the working directory.
            is_partial = bool(found) and "WorkDir" not in found
            rows[task] = msgspec.structs.replace(rows[task], gathered=found, queue_s=waited, is_partial=is_partial)
    return rows


def _with_all_fields(found: dict[str, str]) -> dict[str, str]:
    """Return the fields of a task with those that some clusters do not have.

    Energy is empty without a meter. Since version 20.11, requested generic resources are in ``ReqTRES`` alone.
    """
    if not found:
        return found
    resources = (part.removeprefix("gres/") for part in found.get("ReqTRES", "").split(",") if "gres/" in part)
    former = {"ConsumedEnergyRaw": "", "ReqGRES": ",".join(each.replace("=", ":", 1) for each in resources)}
    return former | found


def account_rows(text: str) -> dict[TaskId, AccountRow]:
    """Parse the output of ``sacct --parsable2 --delimiter`` `SEPARATOR` ``--format`` `ACCOUNT_FIELDS`.

    Only lines of steps hold the memory used, and only lines of jobs how a job ended.
    """
    rows: dict[TaskId, AccountRow] = {}
    peaks: dict[TaskId, int] = {}
    signals: dict[TaskId, int] = {}
    for line in text.splitlines():
        fields = dict(zip(ACCOUNT_FIELDS, line.split(SEPARATOR), strict=False))
        if len(fields) != len(ACCOUNT_FIELDS):
            continue
        number, dot, _ = fields["JobID"].partition(".")
        code, number_of_signal = exit_status(fields["ExitCode"])
        if dot:
            # Only tasks that started have steps, and each has lines of its own.
            for task in islice(task_ids(number), 1):
                if (peak := parse_size(fields["MaxRSS"])) is not None:
                    peaks[task] = max(peak, peaks.get(task, 0))
                signals[task] = max(number_of_signal, signals.get(task, 0))
            continue
        # Tasks that never started share a line.
        for task in task_ids(number):
            rows[task] = _account_row(task, fields, code, number_of_signal)
    return {
        task: msgspec.structs.replace(row, peak_memory_b=peaks.get(task)) if task in peaks else row
        for task, row in rows.items()
    }


def _account_row(task: TaskId, fields: Mapping[str, str], code: int, number_of_signal: int) -> AccountRow:
    return AccountRow(
        id=task,
        raw_id=fields["JobIDRaw"],
        state=base_state(fields["State"]),
        state_text=fields["State"],
        removed_by=_removed_by(fields["State"]),
        exit=code,
        signal=number_of_signal,
        started_at=parse_time(fields["Start"]),
        ended_at=parse_time(fields["End"]),
        run_s=None if (elapsed := parse_number(fields["ElapsedRaw"])) is None else float(elapsed),
        cpu_s=parse_duration(fields["TotalCPU"]),
        node=fields["NodeList"],
        reason=fields["Reason"],
    )


def _removed_by(state: str) -> int | None:
    """Return the user's number in ``CANCELLED by 1000``; ``None`` without one."""
    return parse_number(state.partition(" by ")[2].strip())


def exit_status(text: str) -> tuple[int, int]:
    """Parse exit code and signal from ``3:0`` or ``0:9``."""
    code, _, number = text.partition(":")
    return parse_number(code) or 0, parse_number(number) or 0


_OUT_OF_MEMORY: Final = re.compile(r"exceeded memory limit|oom[-_ ]?kill", re.IGNORECASE)
_STEP_ID: Final = re.compile(r"StepId=(\d+)\b")


def reports_out_of_memory(output: str, raw_id: str) -> bool:
    """Whether Slurm's messages in a batch's output report that a task ran out of memory.

    `output` is the output, which all tasks of the batch share; `raw_id` is the task's own id in Slurm's messages.
    """
    lines = (line for line in output.splitlines() if _OUT_OF_MEMORY.search(line))
    return bool(raw_id) and any(found[1] == raw_id for line in lines for found in _STEP_ID.finditer(line))


# Jobs that scontrol still shows after they left the queue, by which a native run ends without accounting.


_UNKNOWN_JOB: Final = re.compile(r"Invalid job[ _]?id|\bJob (ID )?[\w+,.\[\]-]+ not found", re.IGNORECASE)


def is_unknown_job(output: str) -> bool:
    """Whether scontrol says that it has no such job: on its error output, and of a task on its output."""
    return bool(_UNKNOWN_JOB.search(output))


def shown_rows(output: str) -> dict[TaskId, AccountRow]:
    """Parse ``scontrol --oneliner show job`` for an array: a line per task that started, and one for the others."""
    rows: dict[TaskId, AccountRow] = {}
    for line in output.splitlines():
        fields = dict(pairs(line))
        number = parse_number(fields.get("ArrayJobId", "") or fields.get("JobId", ""))
        if number is None:
            continue
        index = fields.get("ArrayTaskId", "")
        # Of an array whose members were cancelled one by one, a record without an index is left.
        expression = str(number) if index in {"", "N/A", _NO_INDEX} else f"{number}_[{index}]"
        for task in task_ids(expression):
            rows.setdefault(task, shown_row(task, line))
    return rows


_NO_INDEX: Final = "4294967294"
"""How scontrol writes that there is no index."""


def shown_row(task: TaskId, output: str) -> AccountRow:
    """Parse ``scontrol --oneliner show job`` for a task."""
    # A heterogeneous job has a line for each component; the first one counts.
    fields = dict(pairs(output.strip().partition("\n")[0]))
    started = parse_time(fields.get("StartTime", ""))
    code, number = exit_status(fields.get("ExitCode", ""))
    return AccountRow(
        id=task,
        raw_id=fields.get("JobId", ""),
        state=base_state(fields.get("JobState", "")),
        state_text=fields.get("JobState", ""),
        exit=code,
        signal=number,
        started_at=started,
        ended_at=parse_time(fields.get("EndTime", "")),
        run_s=parse_duration(fields.get("RunTime", "")),
        node=fields.get("BatchHost", ""),
        reason=fields.get("Reason", ""),
        queue_s=seconds_between(parse_time(fields.get("SubmitTime", "")), started),
    )


def parse_boot_time(text: str) -> float | None:
    """Parse ``scontrol --oneliner show node``: when the nodes booted, the earliest; ``None`` if one does not tell."""
    nodes = [dict(pairs(line)) for line in text.splitlines() if line.startswith("NodeName=")]
    times = [parse_time(node.get("BootTime", "")) for node in nodes]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


def pairs(line: str) -> Iterator[tuple[str, str]]:
    """Split a line of scontrol into NAME=VALUE pairs; a value may contain blanks, a name cannot."""
    for found in re.finditer(
        r"(?:^|\s)([A-Za-z][\w:/.&*]*)=((?:(?!\s[A-Za-z][\w:/.&*]*=).)*)", line.strip(), re.DOTALL
    ):
        yield found[1], found[2].strip()
