"""LSF's job states and reasons of termination, and the phase and cause each means for an attempt.

A job that was terminated is in state ``EXIT``, whatever its exit status: the reason says why. A known reason is
therefore a state here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from longshore.batch.jobs import StateTable
from longshore.model.run.states import Cause

HELD: Final = "PSUSP: suspended while pending"
"""Why a held job waits."""

REASONS: Final[Mapping[str, Cause]] = MappingProxyType(
    {
        **dict.fromkeys(("TERM_MEMLIMIT", "TERM_SWAP"), Cause.OOM),
        **dict.fromkeys(("TERM_RUNLIMIT", "TERM_CPULIMIT", "TERM_DEADLINE"), Cause.WALLTIME),
        **dict.fromkeys(("TERM_OWNER", "TERM_FORCE_OWNER", "TERM_ADMIN", "TERM_FORCE_ADMIN"), Cause.CANCELLED),
        **dict.fromkeys(("TERM_BUCKET_KILL", "TERM_ORPHAN_SYSTEM"), Cause.CANCELLED),
        **dict.fromkeys(("TERM_PREEMPT", "TERM_LOAD", "TERM_WINDOW", "TERM_CHKPNT"), Cause.PREEMPTED),
        **dict.fromkeys(("TERM_REQUEUE_OWNER", "TERM_REQUEUE_ADMIN"), Cause.PREEMPTED),
        "TERM_CWD_NOTEXIST": Cause.SUBMIT,
        "TERM_EXTERNAL_SIGNAL": Cause.EXIT,
        "TERM_UNKNOWN": Cause.EXIT,
    }
)
"""Cause of failure per reason of termination (bjobs -o exit_reason, bhist -l, bacct -l)."""

_QUEUE: Final = "choose another 'queue', or change what the job asks for to what its queue allows"
_HOSTS: Final = "change 'lsf.hosts' to hosts that the queue has, or choose another 'queue'"
HOPELESS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Bad host name, host group name or cluster name": _HOSTS,
        "Host or host group is not used by the queue": _HOSTS,
        "Dependency condition invalid or never satisfied": "remove the dependency: the other job has failed",
        "Event is rejected by eeventd due to syntax error": "correct the option for an external event",
        "Job no longer satisfies queue PROCLIMIT configuration": _QUEUE,
        "Job no longer satisfies queue TASKLIMIT configuration": _QUEUE,
        "The user has no permission to run the job on remote host/cluster": "choose another 'queue'",
        "Unable to determine user account for execution": "ask an operator for an account on the hosts of the queue",
    }
)
"""The change that mends each reason of waiting that does not pass by itself, in words that follow a colon.

The reasons are those of ``bjobs -p``. They are reasons for all hosts: one that holds for some hosts may pass.
"""

STATES: Final = StateTable(
    waiting=("PEND", "PROV", "PSUSP", "USUSP", "SSUSP", "WAIT"),
    # The host of UNKWN does not answer: the job may still run there.
    running=("RUN", "UNKWN"),
    # ZOMBI was killed while its host did not answer, and nothing more is known of it.
    causes=MappingProxyType({"DONE": None, "EXIT": Cause.EXIT, "ZOMBI": Cause.LOST, **REASONS}),
    ordinary=frozenset({"DONE", "EXIT"}),
    suspended=frozenset({"USUSP", "SSUSP"}),
    held_reasons=frozenset({HELD}),
    hopeless_reasons=HOPELESS,
)


def final_state(state: str, reason: str) -> str:
    """Return the state that tells most: the known reason of a termination, else the state itself."""
    word = reason.partition(":")[0].strip()
    return word if state == "EXIT" and word in REASONS else state
