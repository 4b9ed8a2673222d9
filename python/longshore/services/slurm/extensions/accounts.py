"""Accounts and QOS of slurmdbd: questions for `ping`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from longshore.batch.dialect import ProgramCall, Question
from longshore.batch.jobs import ClusterFacts
from longshore.contract.inventory import Association, Qos
from longshore.services.slurm.inventory import parse_time_limit

_SHOW: Final = ("sacctmgr", "--noheader", "--parsable2", "show")
_ASSOCIATION_FIELDS: Final = "account,qos,maxjobs,maxsubmitjobs,maxwall"
_QOS_FIELDS: Final = "name,maxjobsperuser,maxsubmitjobsperuser,maxwall,flags"
_OVERRIDES: Final = {"PartitionTimeLimit": "walltime", "PartitionMaxNodes": "nodes"}
"""Flag of a QOS -> the limit of partitions that it replaces (sacctmgr(1))."""


def accounts_question(user: str, facts: ClusterFacts) -> Question[Sequence[Association]]:
    """Return the question for a user's associations."""
    who = (f"user={user}", *([f"cluster={facts.name}"] if facts.name else []))
    return Question(ProgramCall((*_SHOW, "associations", *who, f"format={_ASSOCIATION_FIELDS}")), parse_associations)


def qos_question() -> Question[Mapping[str, Qos]]:
    """Return the question for the QOS."""
    return Question(ProgramCall((*_SHOW, "qos", f"format={_QOS_FIELDS}")), parse_qos)


def parse_associations(text: str) -> list[Association]:
    """Parse ``sacctmgr show associations`` with `_ASSOCIATION_FIELDS`."""
    rows = (line.split("|") for line in text.splitlines())
    return [
        Association(
            account=row[0],
            qos=frozenset(filter(None, row[1].split(","))),
            max_jobs=row[2],
            max_submitted=row[3],
            max_time=row[4],
            walltime_s=parse_time_limit(row[4]),
        )
        for row in rows
        if len(row) == 5
    ]


def parse_qos(text: str) -> dict[str, Qos]:
    """Parse ``sacctmgr show qos`` with `_QOS_FIELDS`."""
    rows = (line.split("|") for line in text.splitlines())
    return {
        row[0]: Qos(
            name=row[0],
            max_jobs=row[1],
            max_submitted=row[2],
            max_time=row[3],
            walltime_s=parse_time_limit(row[3]),
            overrides=frozenset(_OVERRIDES[flag] for flag in row[4].split(",") if flag in _OVERRIDES),
        )
        for row in rows
        if len(row) == 5
    }
