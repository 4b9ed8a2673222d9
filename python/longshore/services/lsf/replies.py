"""What bsub and bkill answer, and what lsid and bparams tell of a cluster."""

from __future__ import annotations

import re
from typing import Final

from longshore.batch.jobs import ClusterFacts
from longshore.batch.submit_replies import SubmitOutcome, SubmitReplies
from longshore.batch.values import parse_number, plain_lines
from longshore.contract.inventory import PartitionState
from longshore.world.processes.shell import ProgramResult

REPLIES: Final = SubmitReplies(
    accepted=re.compile(r"Job <(\d{1,18})> is submitted.*"),
    errors=(
        # Nothing more is known of what was sent.
        (SubmitOutcome.BROKEN, "Failed in sending/receiving a message|Communication error|lost connection"),
        (SubmitOutcome.UNSURE, "Communication time ?out|Internal library error"),
        (SubmitOutcome.UNREACHABLE, "Cannot connect to LSF|LSF is down|LIM is down|Cannot find master"),
        (SubmitOutcome.UNREACHABLE, "daemon.* not respond"),
        (SubmitOutcome.TOO_LARGE, "Job array (index|size)|MAX_JOB_ARRAY_SIZE"),
        (
            SubmitOutcome.THROTTLED,
            (
                "pending job (slot )?(threshold|limit)|reached its (pending )?job( slot)? limit|Too many jobs"
                "|No job Id can be used now|enough per-(user|processor) job slots|try again later"
                "|Queue has been closed|queue windows are closed"
            ),
        ),
        (
            SubmitOutcome.HOPELESS,
            (
                "No such (queue|user|host|project|application|job group|service class)|User cannot use the queue"
                "|Bad (queue|resource requirement|host|argument|time|CPU limit|job name)|Unknown (user|resource)"
                "|Too many processors requested|exceed queue's hard limit|User permission denied|Illegal option"
                "|is not used by the queue|does not accept|Root job submission is disabled|syntax error"
                "|Dependency condition invalid"
            ),
        ),
    ),
)
"""What bsub answers."""

_NO_JOBS: Final = re.compile(r"No (unfinished |matching |finished )?jobs? found|Job <[^<>]*> is not found")
_KILLED: Final = re.compile(
    r"is being (terminated|signaled|resumed)|Job has already finished|No (matching|unfinished) job found|is not found"
)


def is_answer_of_jobs(answer: ProgramResult) -> bool:
    """Whether bjobs answered: its exit status is a failure also where it has no job to list."""
    lines = plain_lines(answer.err)
    return answer.status is not None and bool(lines or answer.out.strip()) and all(map(_NO_JOBS.search, lines))


def knows_no_job(text: str) -> bool:
    """Whether bhist or bacct says that it has no such job."""
    return bool(_NO_JOBS.search(text))


def is_answer_of_kill(answer: ProgramResult) -> bool:
    """Whether bkill or bresume did all it was to do: a job that is over needs nothing more."""
    lines = plain_lines(answer.err, answer.out)
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


def parse_unit(output: str) -> str:
    """Parse the unit of limits in ``badmin showconf mbd``; empty without one."""
    found = _UNIT.search(output)
    return f"{found[1].upper()}B" if found else ""
