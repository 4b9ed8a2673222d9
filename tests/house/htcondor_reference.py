"""Writes the reference page of the HTCondor service from the service itself; a test holds the two to each other.

Usage: python -m tests.house.htcondor_reference
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from longshore.services.htcondor.check import LEFT_TO_HTCONDOR, REACHES, REFUSED
from longshore.services.htcondor.settings import DAGMAN

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "htcondor.md"

_HEAD: Final = """# HTCondor

<!-- Made by `python -m tests.house.htcondor_reference` from etc/schema/site.json and the service; do not edit. -->

What the service `htcondor` makes of the [keys of every configuration](configuration.md), and the keys that only it has.
[How to use an HTCondor pool](../how-to/use-htcondor.md) shows it in use.

## Files

All of them lie in `wms/` of the run directory, however many jobs there are:

| file | |
|---|---|
| `run.dag` | the DAG: a submit description per kind of jobs, a node per job with what is its own, edges, limits |
| `overrides.dag` | read last: what `restart --set` says, and the memory that jobs had come to |
| `dagman.conf` | settings of DAGMan: `wmsConfig` |
| `final-status` | run by DAGMan after the final job: the DAG has failed if any job has, whatever the final job says |
| `gate` | with `ordering` that does not block: run by DAGMan until a group is over, however it ended (Python 3.6) |
| `provisioningJob.bash`, `provisioningConfig` | with `provisionResources`: what starts machines, and what that reads |
| `run.dag.*` | DAGMan's own |

A node is named `j` and the number of its job in `workflow.jsonl`; `final` is the final job, `provision` the one that
starts machines, and `g0`, `g1`, ... are nodes without a job that stand for many edges, or between groups of jobs.
The log of an attempt is `logs/LABEL/NN/JOB.CLUSTER.ATTEMPT.log`, both streams in one; with `overwriteJobFiles` it is
`JOB.CLUSTER.log` for all attempts that DAGMan submitted once.

Every job has the attributes `LongshoreRun`, `LongshoreJob` (its number), `LongshoreName`, `bps_job_name`,
`bps_job_label`, `bps_job_quanta` and those of the run, such as `bps_operator`. Signs that mean something to HTCondor
are `_` in there; arguments, environment and `LONGSHORE_JOB_NAME` have them as they are.
"""
_RULES: Final = """## Memory, and other ends

A job that ran out of memory is held by HTCondor (hold codes 34, or 21 with subcode 102) or, killed by a signal, by a
policy of its own (code 3 with subcode 34); it is released at once and asks for `memoryMultiplier` times as much, never
more than `requestMemoryMax`, `memoryLimit` or the largest machine whose name fits `executeMachinesPattern`, or of all
machines where none fits. When it had that, it is given up. Holds by hand stay. Every other hold counts as an attempt,
is released after `retryDelay`, twice that, and so on up to `retryDelayMax`, or at once where `releaseExpr` says so, and
ends the job when none of its attempts is left. A job that ran out of time (code 47) goes again only with
`walltimeMultiplier` above 1.

What is asked for follows from numbers that change only when a job ends or is held (`NumHoldsByReason`,
`NumJobCompletions`), so that a slot never refuses the job it was made for.

## Quoting

Arguments, values of variables and names reach the job sign by sign. What HTCondor's own syntax cannot hold, line feeds
and `$$(`, is packed into an argument that `/bin/sh` unpacks. A program without a path is found by `/usr/bin/env`.
"""
_DAGMAN: Final = """## `wmsConfig`

Settings of DAGMan for the run. A name that is not known, or a value of the wrong kind, is an error:
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([_HEAD, *_keys(), _RULES, *_dagman()]).rstrip() + "\n"


def _keys() -> Iterator[str]:
    schema = json.loads((ROOT / "etc" / "schema" / "site.json").read_text("utf-8"))
    own = schema["properties"]["htcondor"]["properties"]
    yield from _table("The site's map `htcondor`", {name: entry["description"] for name, entry in own.items()})
    yield from _table("What each key becomes", REACHES)
    yield from _table("What is refused, or has no effect, and why", REFUSED)
    yield from _table("What is left to HTCondor", LEFT_TO_HTCONDOR)


def _table(title: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| key | |"
    yield "|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in sorted(rows.items()))
    yield ""


def _dagman() -> Iterator[str]:
    yield _DAGMAN
    yield ", ".join(f"`{name}`" for name in sorted(DAGMAN)) + "."


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
