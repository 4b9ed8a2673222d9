"""Parsers of the output of sbatch, squeue, sacct and scontrol into records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from longshore.batch.dialect import SubmissionReply, SubmitOutcome
from longshore.batch.jobs import AccountRow, ClusterFacts, QueueRow, TaskId
from longshore.services.slurm.commands.states import base_state
from longshore.world.processes.shell import ProgramResult

SEPARATOR: Final = "\x1f"
"""Separator of sacct's fields: a character that no job name contains."""

QUEUE_FORMAT: Final = "%i|%A|%T|%r|%S|%N|%j"
"""Fields of squeue (`queue_rows`): id, own id, state, reason, start, nodes, and the name, which may be anything."""

ACCOUNT_FIELDS: Final = (
    "JobID",
    "JobIDRaw",
    "State",
    "ExitCode",
    "Start",
    "End",
    "ElapsedRaw",
    "TotalCPU",
    "MaxRSS",
    "ReqMem",
    "NodeList",
    "Reason",
)
"""Fields of sacct that decide outcomes (`account_rows`)."""

GATHERED_FIELDS: Final = (
    "Account",
    "AllocNodes",
    "AllocTRES",
    "ConsumedEnergyRaw",
    "CPUTimeRaw",
    "End",
    "ExitCode",
    "JobID",
    "JobName",
    "NCPUS",
    "NNodes",
    "QOS",
    "ReqGRES",
    "ReqMem",
    "ReqNodes",
    "ReqTRES",
    "Start",
    "State",
    "Submit",
    "UID",
    "User",
    "WorkDir",
)
"""Fields of sacct that are stored with an attempt; those of buildtest's page on batch schedulers."""


_SBATCH_REPLY: Final = re.compile(r"^(?:Submitted batch job )?([0-9]{1,18})(?:;(\S+)| on cluster (\S+))?$")


def submitted_id(reply: str) -> tuple[int, str | None] | None:
    """Parse job id and cluster from ``sbatch``'s reply, ignoring a site's extra lines; ``None`` without an id."""
    for line in reversed(reply.splitlines()):
        if found := _SBATCH_REPLY.match(line.strip()):
            return int(found[1]), found[2] or found[3]
    return None


_TEMPORARY: Final = re.compile(
    r"submit limit|QOSMax\w*Submit|AssocMax\w*|AssocGrp\w*|Grp\w*Submit\w*Limit|job submit limit"
    r"|temporarily unable to accept job|Resource temporarily unavailable|MaxJobCount|too many jobs"
    r"|connect failure|Address already in use"
    r"|Slurm backup controller in standby mode|currently unable to|Protocol authentication error|Munge",
    re.IGNORECASE,
)
_UNREACHABLE: Final = re.compile(
    r"Unable to contact slurm controller|Connection refused|DNS SRV lookup failed|failed to fetch (remote )?config"
    r"|Could not establish a configuration source|Unable to (load|process) configuration|Unable to establish controller"
    r"|Unable to (resolve|establish control machine)|getaddrinfo\(\) failed|No route to host|Network is unreachable",
    re.IGNORECASE,
)
"""Errors of a program that reached no controller, or found no configuration that names one."""
_SIZE_LIMIT: Final = re.compile(
    r"submit limit|QOSMax\w*Submit|AssocMax\w*Submit|AssocGrp\w*Submit|Grp\w*Submit\w*Limit|MaxJobCount|too many jobs",
    re.IGNORECASE,
)
_UNCERTAIN: Final = re.compile(
    r"timed out|Zero Bytes were transmitted|Unexpected message received|Transport endpoint|Connection reset"
    r"|Communication connection failure|Header lengths are longer",
    re.IGNORECASE,
)


_BROKEN_CONNECTION: Final = re.compile(
    r"Connection reset|Transport endpoint|Zero Bytes were transmitted", re.IGNORECASE
)
_PERMANENT: Final = re.compile(
    r"Invalid (partition|qos|account|wckey|license|feature|generic resource|job array|node name|trackable resource)"
    r"|Invalid --|Requested reservation is invalid|Requested time limit is invalid"
    r"|Requested node configuration is not available|Memory specification can ?not be satisfied"
    r"|Node count specification invalid|More processors requested than permitted|(unrecognized|invalid) option"
    r"|does not look like a batch script|Access/permission denied|not permitted to use this (partition|account|qos)",
    re.IGNORECASE,
)


def read_submit_reply(answer: ProgramResult) -> SubmissionReply:
    """Return the meaning of an answer of ``sbatch --parsable``."""
    if answer.ok and (found := submitted_id(answer.out)):
        return SubmissionReply(SubmitOutcome.ACCEPTED, found[0])
    if answer.ok or answer.status is None:
        return SubmissionReply(SubmitOutcome.UNSURE)
    return SubmissionReply(classify_submit_error(answer.err or answer.out))


def classify_submit_error(message: str) -> SubmitOutcome:
    """Classify the error message of an ``sbatch`` that returned no id."""
    if _UNCERTAIN.search(message):
        # A slow reply may still come; what a broken connection had brought is there soon.
        is_broken = bool(_BROKEN_CONNECTION.search(message)) and "timed out" not in message.lower()
        return SubmitOutcome.BROKEN if is_broken else SubmitOutcome.UNSURE
    if _UNREACHABLE.search(message):
        return SubmitOutcome.UNREACHABLE
    if _TEMPORARY.search(message):
        return SubmitOutcome.TOO_LARGE if _SIZE_LIMIT.search(message) else SubmitOutcome.THROTTLED
    return SubmitOutcome.HOPELESS if _PERMANENT.search(message) else SubmitOutcome.REFUSED


_INDEX_SPAN: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
_MOST_DIGITS: Final = 18
"""Digits of the largest number: JSON holds it exactly, and Python converts it."""
_MOST_TASKS: Final = 4_000_001
"""Largest index of an array that Slurm can be built for (slurm.conf(5): MaxArraySize)."""


def queue_rows(text: str) -> Iterator[QueueRow]:
    """Parse ``squeue --noheader --format`` `QUEUE_FORMAT`; tasks that share a row get one row each."""
    for line in text.splitlines():
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
    number, index = _parse_number(job), _parse_number(tasks)
    if number is None:
        return
    if not underscore:
        yield TaskId(number)
    elif index is not None:
        yield TaskId(number, index)
    else:
        if "..." in tasks or tasks in {"*", "[*]"}:
            yield TaskId(number)
        for span in tasks.strip("[]").partition("%")[0].split(","):
            if (found := _INDEX_SPAN.fullmatch(span.strip())) and int(found[2] or 0) < _MOST_TASKS:
                first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
                yield from (TaskId(number, each) for each in range(first, last + 1, step or 1))


def _parse_number(text: str) -> int | None:
    """Parse a whole number; ``None`` for other text, and for digits that no number of Slurm has."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


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
            waited = _wait_s(found.get("Submit", ""), found.get("Start", ""))
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
                if (peak := parse_bytes(fields["MaxRSS"])) is not None:
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
        run_s=None if (elapsed := _parse_number(fields["ElapsedRaw"])) is None else float(elapsed),
        cpu_s=parse_duration(fields["TotalCPU"]),
        node=fields["NodeList"],
        reason=fields["Reason"],
    )


_UNKNOWN_JOB: Final = re.compile(r"Invalid job[ _]?id|\bJob (ID )?[\w+,.\[\]-]+ not found", re.IGNORECASE)


def is_unknown_job(output: str) -> bool:
    """Whether scontrol says that it has no such job: on its error output, and of a task on its output."""
    return bool(_UNKNOWN_JOB.search(output))


def shown_rows(output: str) -> dict[TaskId, AccountRow]:
    """Parse ``scontrol --oneliner show job`` for an array: a line per task that started, and one for the others."""
    rows: dict[TaskId, AccountRow] = {}
    for line in output.splitlines():
        fields = dict(pairs(line))
        number = _parse_number(fields.get("ArrayJobId", "") or fields.get("JobId", ""))
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


def _removed_by(state: str) -> int | None:
    """Return the user's number in ``CANCELLED by 1000``; ``None`` without one."""
    return _parse_number(state.partition(" by ")[2].strip())


def shown_row(task: TaskId, output: str) -> AccountRow:
    """Parse ``scontrol --oneliner show job`` for a task."""
    # A heterogeneous job has a line for each component; the first one counts.
    fields = dict(pairs(output.strip().partition("\n")[0]))
    code, number = exit_status(fields.get("ExitCode", ""))
    return AccountRow(
        id=task,
        raw_id=fields.get("JobId", ""),
        state=base_state(fields.get("JobState", "")),
        state_text=fields.get("JobState", ""),
        exit=code,
        signal=number,
        started_at=parse_time(fields.get("StartTime", "")),
        ended_at=parse_time(fields.get("EndTime", "")),
        run_s=parse_duration(fields.get("RunTime", "")),
        node=fields.get("BatchHost", ""),
        reason=fields.get("Reason", ""),
        queue_s=_wait_s(fields.get("SubmitTime", ""), fields.get("StartTime", "")),
    )


def pairs(line: str) -> Iterator[tuple[str, str]]:
    """Split a line of scontrol into NAME=VALUE pairs; a value may contain blanks, a name cannot."""
    for found in re.finditer(
        r"(?:^|\s)([A-Za-z][\w:/.&*]*)=((?:(?!\s[A-Za-z][\w:/.&*]*=).)*)", line.strip(), re.DOTALL
    ):
        yield found[1], found[2].strip()


def _wait_s(submitted: str, started: str) -> float | None:
    first, second = parse_time(submitted), parse_time(started)
    return None if first is None or second is None or second < first else second - first


def exit_status(text: str) -> tuple[int, int]:
    """Parse exit code and signal from ``3:0`` or ``0:9``."""
    code, _, number = text.partition(":")
    return _parse_number(code) or 0, _parse_number(number) or 0


_OUT_OF_MEMORY: Final = re.compile(r"exceeded memory limit|oom[-_ ]?kill", re.IGNORECASE)
_STEP_ID: Final = re.compile(r"StepId=(\d+)\b")


def reports_out_of_memory(output: str, raw_id: str) -> bool:
    """Whether Slurm's messages in a batch's output report that a task ran out of memory.

    `output` is the output, which all tasks of the batch share; `raw_id` is the task's own id in Slurm's messages.
    """
    lines = (line for line in output.splitlines() if _OUT_OF_MEMORY.search(line))
    return bool(raw_id) and any(found[1] == raw_id for line in lines for found in _STEP_ID.finditer(line))


_MOST_BYTES: Final = 2**63 - 1
_BYTE_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_BYTES: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([KMGTPE]?)[nc]?")


def parse_bytes(text: str) -> int | None:
    """Parse bytes from ``113561K``, ``1.50G`` or, in old versions, ``50Mn``; ``None`` for no amount."""
    found = _BYTES.fullmatch(text.strip())
    amount = round(float(found[1]) * 1024 ** _BYTE_POWERS[found[2]]) if found else None
    return None if amount is None or amount > _MOST_BYTES else amount


_DURATION: Final = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{1,9})?)")


def parse_duration(text: str) -> float | None:
    """Parse seconds from ``1-02:03:04``, ``00:00:07`` or ``00:01.250``; ``None`` for no such time."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        return None
    days, hours, minutes, tasks = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + tasks


def parse_time(text: str) -> float | None:
    """Parse local time ``2026-11-20T14:06:30`` to seconds since the epoch; ``None`` for ``Unknown`` or ``N/A``."""
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def cluster_facts(text: str) -> ClusterFacts:
    """Parse ``scontrol show config``."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip().lower()] = value.strip()
    known = {name: "" if value in {"(null)", "N/A"} else value for name, value in values.items()}
    age = known.get("minjobage", "").split(" ")[0]
    array = known.get("maxarraysize", "")
    jobs = known.get("maxjobcount", "")
    return ClusterFacts(
        version=known.get("slurm_version", ""),
        name=known.get("clustername", ""),
        # The largest index is one less than the size (slurm.conf(5): MaxArraySize).
        max_array=None if (size := _parse_number(array)) is None else max(1, size - 1),
        max_jobs=_parse_number(jobs),
        min_job_age_s=None if (seconds := _parse_number(age)) is None else float(seconds),
        accounting=bool(known.get("accountingstoragetype")) and not known["accountingstoragetype"].endswith("/none"),
        priority_parameters=known.get("priorityparameters") or known.get("priorityparams", ""),
        licences=_names_in(known.get("licenses", "")),
        gres=_names_in(known.get("grestypes", "")),
    )


def with_licences(facts: ClusterFacts, text: str) -> ClusterFacts:
    """Add the licences from ``scontrol --oneliner show licenses``, which also lists remote ones."""
    more = re.findall(r"LicenseName=([^\s@]+)", text)
    return msgspec.structs.replace(facts, licences=tuple(dict.fromkeys([*facts.licences, *more])))


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(word.split(":")[0].split("@")[0].strip() for word in text.split(",") if word.strip())
