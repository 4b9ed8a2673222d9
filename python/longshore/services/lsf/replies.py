"""What bsub and bkill answer, and what lsid and bparams tell of a cluster."""

from __future__ import annotations

import re
from typing import Final

from longshore.batch.cluster_names import PartitionState
from longshore.batch.dialect import SubmissionReply, SubmitOutcome
from longshore.batch.jobs import ClusterFacts
from longshore.services.lsf.parse_jobs import parse_bytes, parse_number
from longshore.world.processes.shell import ProgramResult

_SUBMITTED: Final = re.compile(r"Job <(\d{1,18})> is submitted")
_OUTCOMES: Final = (
    # Nothing more is known of what was sent.
    (
        SubmitOutcome.BROKEN,
        re.compile("Failed in sending/receiving a message|Communication error|lost connection", re.IGNORECASE),
    ),
    (SubmitOutcome.UNSURE, re.compile("Communication time ?out|Internal library error", re.IGNORECASE)),
    (
        SubmitOutcome.UNREACHABLE,
        re.compile(
            "Cannot connect to LSF|LSF is down|LIM is down|daemon.* not respond|Cannot find master", re.IGNORECASE
        ),
    ),
    (SubmitOutcome.TOO_LARGE, re.compile("Job array (index|size)|MAX_JOB_ARRAY_SIZE", re.IGNORECASE)),
    (
        SubmitOutcome.THROTTLED,
        re.compile(
            "pending job (slot )?(threshold|limit)|reached its (pending )?job( slot)? limit|Too many jobs"
            "|No job Id can be used now|enough per-(user|processor) job slots|try again later"
            "|Queue has been closed|queue windows are closed",
            re.IGNORECASE,
        ),
    ),
    (
        SubmitOutcome.HOPELESS,
        re.compile(
            "No such (queue|user|host|project|application|job group|service class)|User cannot use the queue"
            "|Bad (queue|resource requirement|host|argument|time|CPU limit|job name)|Unknown (user|resource)"
            "|Too many processors requested|exceed queue's hard limit|User permission denied|Illegal option"
            "|is not used by the queue|does not accept|Root job submission is disabled|syntax error"
            "|Dependency condition invalid",
            re.IGNORECASE,
        ),
    ),
)
"""Meaning of a message of bsub; the first that fits counts."""


def read_submit_reply(answer: ProgramResult) -> SubmissionReply:
    """Return the meaning of an answer of bsub: the id may stand among lines of other programs."""
    text = f"{answer.out}\n{answer.err}"
    if found := _SUBMITTED.search(text):
        return SubmissionReply(SubmitOutcome.ACCEPTED, int(found[1]))
    if answer.ok or answer.status is None:
        return SubmissionReply(SubmitOutcome.UNSURE)
    for outcome, pattern in _OUTCOMES:
        if pattern.search(text):
            return SubmissionReply(outcome)
    return SubmissionReply(SubmitOutcome.REFUSED)


_NO_JOBS: Final = re.compile(r"No (unfinished |matching |finished )?jobs? found|Job <[^<>]*> is not found")
_KILLED: Final = re.compile(
    r"is being (terminated|signaled|resumed)|Job has already finished|No (matching|unfinished) job found|is not found"
)


def is_answer_of_jobs(answer: ProgramResult) -> bool:
    """Whether bjobs answered, whatever its exit status says: it fails where it knows no job."""
    lines = [line for line in answer.err.splitlines() if line.strip()]
    return answer.status is not None and bool(lines or answer.out.strip()) and all(map(_NO_JOBS.search, lines))


def is_answer_of_kill(answer: ProgramResult) -> bool:
    """Whether bkill or bresume did all it was to do: a job that is over needs nothing more."""
    lines = [line for line in (answer.err + "\n" + answer.out).splitlines() if line.strip()]
    return answer.status is not None and bool(lines) and all(map(_KILLED.search, lines))


_DEFAULT_ARRAY: Final = 1000
"""Most elements of an array where the cluster sets none (lsb.params(5): MAX_JOB_ARRAY_SIZE)."""


def cluster_facts(identity: str, parameters: str) -> ClusterFacts:
    """Parse ``lsid`` and ``bparams -a``."""
    values = dict(re.findall(r"^\s*([A-Z_]+)\s*=\s*(.*?)\s*$", parameters, re.MULTILINE))
    name = re.search(r"My cluster name is (\S+)", identity)
    version = re.search(r"\b(\d+(?:\.\d+)+)\b", identity)
    age = parse_number(str(values.get("CLEAN_PERIOD", "")).partition(" ")[0])
    return ClusterFacts(
        version=version[1] if version else "",
        name=name[1] if name else "",
        max_array=parse_number(str(values.get("MAX_JOB_ARRAY_SIZE", ""))) or _DEFAULT_ARRAY,
        min_job_age_s=None if age is None else float(age),
        accounting=True,
    )


_OPEN: Final = "Open:Active"
"""Status of a queue that takes and starts jobs (bqueues(1))."""
_QUEUE: Final = re.compile(r"^(\S+)\s+\S+\s+((?:Open|Closed):\S+)", re.MULTILINE)
_UNIT: Final = re.compile(r"^\s*LSF_UNIT_FOR_LIMITS\s*=\s*([KMGTkmgt])[Bb]?\b", re.MULTILINE)


def parse_queues(output: str) -> dict[str, PartitionState]:
    """Parse ``bqueues``."""
    found = ((row[1], row[2]) for row in _QUEUE.finditer(output))
    return {name: PartitionState(name=name, state="UP" if state == _OPEN else state) for name, state in found}


def parse_capacity(output: str) -> dict[str, int] | None:
    """Return the processors and memory of the largest server in ``lshosts -w``; ``None`` without any."""
    head, *lines = [line.split() for line in output.splitlines() if line.strip()] or [[]]
    rows = [dict(zip(head, line, strict=False)) for line in lines]
    servers = [row for row in rows if row.get("server") == "Yes"]
    cpus = [number for row in servers if (number := parse_number(row.get("ncpus", "")))]
    memory = [size for row in servers if (size := parse_bytes(row.get("maxmem", "")))]
    return {"cpus": max(cpus), "memory": max(memory)} if cpus and memory else None


def parse_unit(output: str) -> str:
    """Parse the unit of limits in ``badmin showconf mbd``; empty without one."""
    found = _UNIT.search(output)
    return f"{found[1].upper()}B" if found else ""
