"""Makes the reference page of Slurm from its table of keys and the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.generate.keys import entries

from longshore.config.keys import JOB, SITE
from longshore.config.retries import SLURM_STATES
from longshore.services.batch.ping import MISSING_INFORMATION, PING_LIMIT_S
from longshore.services.slurm.keys import TABLE
from longshore.services.slurm.options import COMPONENT_NAMES
from longshore.services.slurm.service import BACKEND_HELP

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "slurm.md"

_HEAD = """# Slurm

<!-- Made by `python -m tests.generate` from its table of keys and the service; do not edit. -->

The keys of the service `slurm`, beside the [keys of every configuration](configuration.md) and of [every
site](site-profiles.md). [How to use a Slurm cluster](../how-to/use-slurm.md) shows the service in use.

## Sections

The map `slurm:` can be in the profile of a site, at the root of a configuration, and under `pipetask.LABEL`,
`cluster.LABEL` and `finalJob`. The maps are merged: for each key the strongest section's value holds, and `null`
cancels the value of a weaker section. Values can have variables, including those of each job (`{visit}`); jobs with
different values form different arrays. The keys under "Keys of the run" come from the run's own site.

`directives:`, and buildtest's `sbatch:`, have raw options for the head of the script, with or without `#SBATCH`. Lines
of the site come first, then those of the label and of the cluster, all after Longshore's own lines. For `sbatch`, the
later of two options holds. An option that sbatch does not take beside a raw one is left out: `--mem` beside
`--mem-per-cpu` or `--mem-per-gpu`, `--cpus-per-task` beside `--cpus-per-gpu`, and the gpus of `--gres` beside `--gpus`
and its like. Two of these that a user wrote are an error, and so is a key of `slurm:` with a raw line that says
something else. `directives: null` cancels the lines of weaker sections. `slurm.omit: [mem, export]` omits lines that
Longshore would write; `job-name`, `array` and `output` cannot be omitted.

## From the keys of every service

| key | option of sbatch |
|---|---|
| `requestCpus` | `--cpus-per-task` |
| `requestMemory` | `--mem`, per node |
| `requestDisk` | `--tmp` |
| `requestWalltime` | `--time`, rounded up to minutes |
| `requestResources: {gpus: 2}` | `--gres=gpu:2` |
| `requestResources: {NAME: 1}` | `--licenses=NAME:1` where the cluster knows such a licence, else `--gres=NAME:1` |
| `queue` | `--partition`; without it, the first row of the site's `partitions` that holds all the job asks for |
| `accountingGroup`, a site's `account` | `--account` |
| a site's `qos` | `--qos` |
| `mailTo`, `whenToMail` | `--mail-user`, `--mail-type` |
| `setup.job`, `modules`, `environment`, `workingDirectory` | none: they apply inside the job |
| `container` | none: a prefix to the command, after `slurm.launcher` |
| `inheritEnvironment` | the environment of `sbatch`, and `--export=ALL`; it always has `PATH` and `SLURM_CONF` |
"""

_HET = """## Heterogeneous jobs

A name with a number belongs to a further component: `cpu1`, `gres1` to the second, `cpu2` to the third. A gap in the
numbers is an error. {indexed} can have a number. Account and wall time apply to all components; raw lines belong to the
first. Slurm has no arrays of such jobs, so each is submitted alone. `launcher: srun` starts the command in all
components.
"""

_TEMPLATE = """## The script, and a site's own template

The template `services/slurm/templates/batch.sh.j2` renders the script of each batch; `templates: {batch.sh: FILE}` of a
site replaces it. It is a Jinja template with one variable, `job`:

| | |
|---|---|
| `job.lines` | the options, one per line, without `#SBATCH` |
| `job.run` | the line that runs the member, in a shell of its own; required |
| `job.run_here` | the same without another shell, for a script with `#!/bin/sh` and no other commands |
| `job.name`, `job.array` | name of the job, number of tasks (0 for a single job) |
| `job.folder`, `job.table`, `job.ends`, `job.wrapper` | paths of the run, its members, their end records, the wrapper |

The template is rendered when a run is prepared. Values that a script cannot have, such as a line feed in a path, are
errors then.
"""

_STATES = """## States

`successIf: {slurm_job_state_codes: FAILED}` is a success if the job fails as expected. buildtest's `status:` map is
supported too. Any one of its keys satisfies it, unless it has `mode: and`. The keys are `returncode` (one or several),
`regex: {stream, exp}` (both streams are one log here), `runtime: {min, max}` and `slurm_job_state_codes`. Any other key
is an error.

| state | `successIf.state` |
|---|---|
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([_HEAD, *_keys(), *_rest()]).rstrip() + "\n"


def _keys() -> Iterator[str]:
    for title, level in (("Keys of the run", SITE), ("Keys of jobs", JOB)):
        yield f"## {title}\n"
        yield from entries(row for row in TABLE.rows if row.level is level)


def _rest() -> Iterator[str]:
    yield _HET.format(indexed=", ".join(f"`{name}`" for name in COMPONENT_NAMES))
    yield f"## On the command line\n\n```text\n{BACKEND_HELP}\n```\n"
    yield "They win over all other values. `-c`, `--mem` and `--tmp` are `requestCpus`, `requestMemory` and"
    yield "`requestDisk` of all jobs, and grow like these at a retry.\n"
    yield _TEMPLATE
    yield _STATES.rstrip("\n")
    for name, states in SLURM_STATES.items():
        yield f"| `{name}` | {' or '.join(f'`{state}`' for state in states)} |"
    yield "\n## What ping checks\n"
    yield f"`ping` takes at most {PING_LIMIT_S:.0f} s for all queries together, and submits nothing. It shows which"
    yield "sources of job states work. Without a source, some information is missing:\n"
    yield "| source | without it |"
    yield "|---|---|"
    for program, words in zip(("squeue", "sacct", "scontrol"), MISSING_INFORMATION.values(), strict=False):
        yield f"| `{program}` | {words} |"
