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
        (SubmitOutcome.UNSURE, "Communication time ?out|Internal library error|Batch protocol error|XDR"),
        (
            SubmitOutcome.UNREACHABLE,
            (
                "Cannot connect to LSF|LSF is down|LIM is down|Cannot find master|daemon.* not respond"
                "|Timeout on connect call|Connection refused|Server is not connected|Batch service not registered"
                "|Unknown cluster name or cluster master|LSB_SHAREDIR not defined"
            ),
        ),
        (SubmitOutcome.TOO_LARGE, "Job array (index|size)|MAX_JOB_ARRAY_SIZE"),
        (
            SubmitOutcome.CLOSED,
            (
                "pending job (slot )?(threshold|limit)|reached its (pending )?job( slot)? limit"
                "|enough (per-(user|processor|host) )?job slots|Queue has been (closed|inactivated)"
                "|queue windows are closed|Not enough host.* currently eligible|Current host is more suitable"
                "|host is locked|licenses? [\\w ]*(unavailable|not available)"
            ),
        ),
        (
            SubmitOutcome.THROTTLED,
            (
                "Too many jobs|No job Id can be used now|try again later|daemon internal error|daemon cannot fork"
                "|System call failed|Cannot allocate memory|Child process died|Operation is in progress"
                "|parameters are being used|spool|Authentication|credential"
            ),
        ),
        (
            SubmitOutcome.REFUSED,
            (
                "No such (queue|user|host|project|application|job group|service class)|User cannot use the queue"
                "|Bad (queue|resource|host|argument|time|CPU limit|job name|user|or invalid)|Bad/empty"
                "|Unknown (user|resource)|No (resource|user group|host group|user/host group) defined"
                "|Too (many|few) processors requested|exceed queue's|User permission denied|Illegal option"
                "|is not used by the queue|(does not|only) accepts?|Root job submission is disabled|syntax error"
                "|not in (the )?specified (user|project) group|first execution host|Empty job|Signal not supported"
                "|Dependency condition invalid|Dependent arrays|Queue name must be specified|group does not exist"
                "|later than termination time|cannot be rerunnable|Job priority control undefined"
            ),
        ),
    ),
)
"""What bsub answers.

The texts are those of ``lsberrno`` (``lsbatch/lib/lsb.err.c`` of openlava, which began as LSF), and those that bsub(1)
and lsb.params(5) name for newer limits.
``Request aborted by esub`` says nothing of the reason: the site's own filter may refuse the request or the moment.
"""

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
