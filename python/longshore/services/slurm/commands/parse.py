"""Parsers of the output of sbatch, squeue, sacct and scontrol into records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from longshore.batch.jobs import AccountRow, ClusterFacts, QueueRow, TaskId
from longshore.batch.values import parse_duration, parse_number, parse_size, parse_spans, parse_time, seconds_between
from longshore.services.slurm.commands.states import base_state

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


_LICENCE: Final = re.compile(r"LicenseName=([^\s@]+)")


def cluster_facts(text: str, licences: str = "") -> ClusterFacts:
    """Parse ``scontrol show config``, and ``scontrol --oneliner show licenses``, which also lists remote ones."""
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
        max_array=None if (size := parse_number(array)) is None else max(1, size - 1),
        max_jobs=parse_number(jobs),
        min_job_age_s=None if (seconds := parse_number(age)) is None else float(seconds),
        accounting=bool(known.get("accountingstoragetype")) and not known["accountingstoragetype"].endswith("/none"),
        enforced=tuple(filter(None, known.get("accountingstorageenforce", "").removeprefix("none").split(","))),
        priority_parameters=known.get("priorityparameters") or known.get("priorityparams", ""),
        licences=tuple(dict.fromkeys([*_names_in(known.get("licenses", "")), *_LICENCE.findall(licences)])),
        gres=_names_in(known.get("grestypes", "")),
    )


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(word.split(":")[0].split("@")[0].strip() for word in text.split(",") if word.strip())
