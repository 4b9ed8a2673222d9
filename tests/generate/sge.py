"""Makes the reference page of Grid Engine from its table of keys and the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.generate.keys import entries

from longshore.config.keys import JOB, SITE
from longshore.services.sge.keys import TABLE
from longshore.services.sge.service import BACKEND_HELP

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "sge.md"

_HEAD = """# Grid Engine

<!-- Made by `python -m tests.generate` from its table of keys and the service; do not edit. -->

The keys of the service `sge`, beside the [keys of every configuration](configuration.md) and of [every
site](site-profiles.md). [How to use a Grid Engine cluster](../how-to/use-grid-engine.md) shows the service in use.

## Where keys go

The map `sge:` can be in the profile of a site, at the root of a configuration, and under `site.NAME`,
`pipetask.LABEL`, `cluster.LABEL` and `finalJob`. The maps are merged: for each key the strongest section's value holds,
and `null` cancels the value of a weaker section. The keys under "Keys of the run" come from the run's own site.

| Longshore | line of the script |
|---|---|
| `requestCpus` | `-pe PARALLELENVIRONMENT CPUS` from two processors on, and `-l CPU_RESOURCE=CPUS` |
| `sge.nodeCount` | `-pe NODESENVIRONMENT SLOTS`, with `requestCpus` slots on each host |
| `requestMemory` | `-l MEM_RESOURCE=MB`; with the unit `M` if the resource has the type MEMORY |
| `requestDisk` | `-l TMP_RESOURCE=MB` |
| `requestWalltime` | `-l h_rt=SECONDS` |
| `requestResources: {NAME: AMOUNT}` | `-l NAME=AMOUNT` |
| `queue` | `-q` |
| `accountingGroup`, `account` of a site | `-P` |
| `mailTo`, `whenToMail` | `-M`, `-m` |
| `sge.hard`, `sge.soft` | `-hard ...`; `-soft ...` as the last line |
| `directives` | their lines, with or without `#$` |
| `inheritEnvironment` | the environment of `qsub`, and `-V` |

All jobs have `-N`, `-S /bin/sh`, `-w e` and `-r n`: Grid Engine refuses what no host can ever serve, and starts no job
a second time by itself.
"""

_REST = """## States

| qstat | meaning |
|---|---|
| qw, Rq | waits |
| hqw | waits; a person holds it |
| Eqw | waits; a start failed, and a person has to clear the error |
| s, S, T | suspended |
| t, r, Rr, dr | runs |

| qacct | cause |
|---|---|
| `failed 0` | success, or `EXIT` by the exit status |
| `failed 37`, ran as long as `h_rt` or `h_cpu` | `WALLTIME` |
| `failed 37`, otherwise | `OOM`; `WALLTIME` if the job itself has no memory limit |
| `failed 100`, ran as long as `s_rt` | `WALLTIME` |
| `failed 100`, `maxvmem` near the limit `h_vmem` of all slots | `OOM` |
| `failed 100`, killed | `CANCELLED` |
| `failed 25` | none: the job was started again |
| another number | `LOST`: the host could not run the job |

A job that is deleted while it waits has no record. It ends as `CANCELLED` ten seconds after it left the queue.

## What is different

- Grid Engine starts a job after any end of those that it waits for, failures too. With `mode: native`, a job's wrapper
  looks for the success of the parents, and does not run the command without it.
- Grid Engine obeys the exit statuses 99 and 100 of a job. It gets 1 instead, and Longshore has the real status.
- `partitions` of a site are its queues. `qos` has no meaning.
- qdel kills jobs at once, without TERM, and only the process group of a script. A guard of the wrapper kills the rest.
- qdel cannot tell waiting jobs from others. A wait beyond `maxpendtime` can end a job that begins at that moment.
- A process that asks for more memory than `h_vmem` gets an error from the system. That is a failure with an exit
  status, not `OOM`: only the sum of a job's processes is killed.
"""


def page() -> str:
    """The text of the page."""
    options = f"## On the command line\n\n```text\n{BACKEND_HELP}\n```\n"
    return "\n".join([_HEAD, *_keys(), options, _REST]).rstrip() + "\n"


def _keys() -> Iterator[str]:
    for title, level in (("Keys of the run", SITE), ("Keys of jobs", JOB)):
        yield f"## {title}\n"
        yield from entries(row for row in TABLE.rows if row.level is level)
