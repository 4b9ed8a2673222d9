"""Makes the reference page of the HTCondor service from the service itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.generate.keys import entries

from longshore.services.htcondor.check import KEY_EFFECTS, REFUSED_KEYS
from longshore.services.htcondor.keys import TABLE
from longshore.services.htcondor.render.settings import DAGMAN_SETTINGS, UNUSED_KEYS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "htcondor.md"

_HEAD: Final = """# HTCondor

<!-- Made by `python -m tests.generate` from its table of keys and the service; do not edit. -->

How the service `htcondor` translates the [keys of every configuration](configuration.md), and the keys that only it
has. [How to use an HTCondor pool](../how-to/use-htcondor.md) shows the service in use.

## Files

All files are in `wms/` of the run directory, and those of a changed workflow in `submissions/NNNN/wms/`. Their number
does not depend on the number of jobs:

| file | |
|---|---|
| `run.dag` | the DAG: a submit description per kind of jobs, a node per job with its own values, edges, limits |
| `overrides.dag` | read last: values of `restart --set`, and raised memory requests of jobs |
| `dagman.conf` | settings of DAGMan: `wmsConfig` |
| `final-status` | run by DAGMan after the final job: fails the DAG if any job failed, even if the final job succeeded |
| `gate` | for an `ordering` that does not block: run by DAGMan until a group is over (Python 3.6) |
| `provisioningJob.bash`, `provisioningConfig` | with `provisionResources`: the job that starts machines, its settings |
| `run.dag.*` | DAGMan's own files |
| `outputs/` | a record per job that succeeded with a stale or empty output, written where it ran |

A node is named `j` and the number of its job in `workflow.jsonl`. `final` is the final job, and `provision` the job
that starts machines. `wms_noop_g0`, `wms_noop_g1`, ... are nodes without a job, which join many edges or separate
groups of jobs.

The log of an attempt is `logs/LABEL/NN/JOB.CLUSTER.ATTEMPT.log`, with both streams. With `overwriteJobFiles: true`, the
default, it is `JOB.CLUSTER.log` for all attempts of one submission by DAGMan.

Every job has the attributes `LongshoreRun`, `LongshoreJob` (its number), `LongshoreName`, `bps_job_name`,
`bps_job_label`, `bps_job_quanta` and those of the run, such as `bps_operator`. Characters with a meaning in HTCondor
become `_` there; arguments, environment and `LONGSHORE_JOB_NAME` keep them.
"""
_RULES: Final = """## Memory, and other ends

HTCondor holds a job that ran out of memory (hold codes 34, or 21 with subcode 102). A job killed by a signal is held by
its own policy (code 3 with subcode 34). Such a job is released at once and requests `memoryMultiplier` times as much.
The limit is `requestMemoryMax`, `memoryLimit`, or the largest machine that matches `executeMachinesPattern` (of all
machines if none matches). After an attempt with the limit, the job has failed.

Holds by hand remain. Every other hold counts as an attempt. It is released after `retryDelay`, twice that, and so on up
to `retryDelayMax`, or at once if `releaseExpr` is true. It ends the job after its last attempt. A job that ran out of
time (code 47) is retried only with `walltimeMultiplier` above 1.

Requests follow from counts that change only when a job ends or is held (`NumHoldsByReason`, `NumJobCompletions`). So a
slot never refuses the job that it was made for.

## Quoting

Arguments, values of variables and names reach the job with every character. HTCondor's syntax cannot express line feeds
and `$$(`; they are packed into an argument that `/bin/sh` unpacks. `/usr/bin/env` finds a program without a path.
"""
_DAGMAN: Final = """## `wmsConfig`

Settings of DAGMan for the run. An unknown name, or a value of the wrong type, is an error:
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([_HEAD, *_keys(), _RULES, *_dagman()]).rstrip() + "\n"


def _keys() -> Iterator[str]:
    yield "## Keys that only HTCondor has\n"
    yield from entries(TABLE.rows)
    yield from _table("Translation of each key", KEY_EFFECTS)
    yield from _table("Refused, and the reason", REFUSED_KEYS)
    yield from _table("Without effect, and the reason", UNUSED_KEYS)


def _table(title: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| key | |"
    yield "|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in sorted(rows.items()))
    yield ""


def _dagman() -> Iterator[str]:
    yield _DAGMAN
    yield ", ".join(f"`{name}`" for name in sorted(DAGMAN_SETTINGS)) + "."
