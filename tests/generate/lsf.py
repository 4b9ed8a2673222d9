"""Makes the reference page of LSF from its table of keys and the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.generate.keys import entries

from longshore.config.keys import JOB, SITE
from longshore.config.retries import LSF_STATES
from longshore.services.batch.ping import MISSING_INFORMATION
from longshore.services.lsf.answers import HOPELESS, REASONS, STATES, STORED_FIELDS, TEXT_FIELDS
from longshore.services.lsf.keys import TABLE
from longshore.services.lsf.options import BACKEND_HELP

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "lsf.md"

_HEAD = """# LSF

<!-- Made by `python -m tests.generate` from its table of keys and the service; do not edit. -->

**Experimental.** This service was never tested on a real LSF. Its tests use programs that print replies from public
documents and from the test data of other projects.

The keys of the service `lsf`, beside the [keys of every configuration](configuration.md) and of [every
site](site-profiles.md). [How to use an LSF cluster](../how-to/use-lsf.md) shows the service in use.

## Sections

The map `lsf:` can be in the profile of a site, at the root of a configuration, and under `pipetask.LABEL`,
`cluster.LABEL` and `finalJob`. The maps are merged: for each key the strongest section's value holds, and `null`
cancels the value of a weaker section. The keys under "Keys of the run" come from the run's own site.

`directives:`, and buildtest's `bsub:`, have raw options for the head of the script, with or without `#BSUB`. They come
after Longshore's own options, and each replaces the one of the same name. With `-nnodes`, LSF gives whole nodes:
Longshore then writes neither `-n` nor `-R`. The options `-J`, `-o`, `-cwd`, `-w` and `-H` are refused. On another
service than LSF, `bsub:` is an error.

## From the keys of every service

| key | option of bsub |
|---|---|
| `requestCpus` | `-n`, and `span[hosts=1]` for more than one |
| `lsf.nodeCount` | `-n` for all hosts, `span[ptile=CPUS]`, and `rusage[mem=2000/host]` instead of `/job` |
| `requestMemory` | `-M 2000MB`, and `rusage[mem=2000/job]` |
| `requestDisk` | `rusage[tmp=N/job]` |
| `requestWalltime` | `-W`, rounded up to minutes |
| `requestResources: {gpus: 2}` | `-gpu num=2` |
| `requestResources: {NAME: 1}` | `rusage[NAME=1/job]` |
| `queue` | `-q`; without it, the first row of the site's `partitions` that can hold the job |
| `accountingGroup`, a site's `account` | `-P` |
| `mailTo`, `whenToMail` | `-u`, and `-N`, `-Ne` or `-B` |
| `setup.job`, `modules`, `environment`, `workingDirectory` | none: they apply inside the job |
| `inheritEnvironment` | the environment of `bsub`; it always has `PATH`, the `LSF_` folders and `LSB_NTRIES` |
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([_HEAD, *_keys(), *_rest()]).rstrip() + "\n"


def _keys() -> Iterator[str]:
    for title, level in (("Keys of the run", SITE), ("Keys of jobs", JOB)):
        yield f"## {title}\n"
        yield from entries(row for row in TABLE.rows if row.level is level)


def _rest() -> Iterator[str]:
    yield f"## On the command line\n\n```text\n{BACKEND_HELP}\n```\n"
    yield "They win over all else. `-n`, `-M` and `-W` are `requestCpus`, `requestMemory` and `requestWalltime`."
    yield "`-gpu`, as a line of `bsub:`, is passed on as it is.\n"
    yield "## How a job ended\n"
    yield "The reason of a termination decides, never the exit code: a job above its memory has had exit codes 137, 130"
    yield "and 1. An unknown reason is an end by exit code.\n"
    yield "| reason | cause |"
    yield "|---|---|"
    for name, cause in REASONS.items():
        yield f"| `{name}` | `{cause.value}` |"
    yield "\nThese words are also values of `successIf.state`, each for the cause beside it:"
    yield f"{', '.join(f'`{name}` (`{causes[0]}`)' for name, causes in LSF_STATES.items())}."
    yield "\n`EXIT` there is an end by an exit code. The state `EXIT` of LSF is any failure: write"
    yield "`[EXIT, SIGNAL, OOM, WALLTIME]` for it."
    yield "\n## States\n"
    yield "| state | means |"
    yield "|---|---|"
    for name, phase in STATES.phases.items():
        if name not in REASONS:
            yield f"| `{name}` | {phase.value} |"
    yield "\n## Reasons of waiting that do not pass\n"
    yield "A job that waits for one of these reasons of `bjobs -p` fails after `hopelessAfter`. They are known with"
    yield "JSON only (`bjobsFormat`). LSF does not tell a request that no host can serve from one that waits: give the"
    yield "site `partitions`, which refuse such a request before submission, or a `maxpendtime`.\n"
    yield "| reason | way out |"
    yield "|---|---|"
    for reason, mend in HOPELESS.items():
        yield f"| {reason} | {mend} |"
    yield "\n## Fields of an attempt\n"
    yield "`explain --json` has these fields of `bjobs` under `extra`:"
    yield f"{', '.join(f'`{name}`' for name in STORED_FIELDS)}."
    yield "\nThey arrive a few seconds after the end of a job, as the event `facts`. Fields without a value are left"
    yield "out."
    kept = ", ".join(f"`{name}`" for name in STORED_FIELDS if name in TEXT_FIELDS)
    yield f"With `bjobsFormat: text`, or a `bjobs` without JSON, there are only {kept}."
    yield "With `gather: false`, there are none of a job that succeeds."
    yield "\n## What ping checks\n"
    yield "`ping` shows the version, the queues with their status, the largest host, and the unit of limits. It is an"
    yield "error if a queue of the site (`queue`, `partitions`, `lsf.bsub`) is not `Open:Active`, or if"
    yield "`LSF_UNIT_FOR_LIMITS` is not `memoryUnit`. It shows which sources of job states work:\n"
    yield "| source | without it |"
    yield "|---|---|"
    for name, role in (("bjobs", "queue"), ("bhist", "history"), ("bacct", "history")):
        yield f"| `{name}` | {MISSING_INFORMATION[role]} |"
