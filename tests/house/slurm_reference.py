"""Writes the reference page of Slurm from the schema and from what the service knows; a test holds the two together.

Usage: python -m tests.house.slurm_reference
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longshore.config.buildtest import STATES
from longshore.services.slurm.asked import INDEXED, OF_SITES, SPELLINGS
from longshore.services.slurm.backend import BACKEND_HELP
from longshore.services.slurm.ping import LOST, PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "slurm.md"

_HEAD = """# Slurm

<!-- Made by `python -m tests.house.slurm_reference` from etc/schema/site.json and the service; do not edit. -->

What the service `slurm` understands, beside the [keys of every configuration](configuration.md) and of [every
site](site-profiles.md). [How to use a Slurm cluster](../how-to/use-slurm.md) shows it in use.

## Where it is said

All keys of the map `slurm:` can stand in the profile of a site, at the root of a configuration, and under
`pipetask.LABEL`, `cluster.LABEL` and `finalJob`. The maps are merged: of each key the strongest section's value
holds, and `null` takes back what a weaker one says. Values can have variables, those of each job (`{visit}`)
included; jobs with different values go in different arrays. The keys under "How Slurm is spoken to" are those of
the run's own site.

`directives:`, and beside it buildtest's `sbatch:`, hold raw options for the head of the script, with or without
`#SBATCH`. Lines of the site come first, then those of the label and of the cluster, all behind the lines of
Longshore's own: of two options the later one holds for `sbatch`. `directives: null` takes back all that weaker
sections say. `slurm.omit: [mem, export]` leaves out lines that Longshore would write; `job-name`, `array` and
`output` cannot be left out.

## From the keys of every service

| key | option of sbatch |
|---|---|
| `requestCpus` | `--cpus-per-task` |
| `requestMemory` | `--mem`, per node |
| `requestDisk` | `--tmp` |
| `requestWalltime` | `--time`, rounded up to minutes |
| `requestResources: {gpus: 2}` | `--gres=gpu:2` |
| `requestResources: {NAME: 1}` | `--licenses=NAME:1` where the cluster knows such a licence, else `--gres=NAME:1` |
| `queue` | `--partition`; without it, the first row of the site's `partitions` that can hold the job |
| `accountingGroup`, a site's `account` | `--account` |
| a site's `qos` | `--qos` |
| `mailTo`, `whenToMail` | `--mail-user`, `--mail-type` |
| `setup.job`, `modules`, `environment`, `workingDirectory` | nothing: they hold inside of the job |
| `container` | nothing: it stands in front of the command, behind `slurm.launcher` |
| `inheritEnvironment` | what `sbatch` sees, and `--export=ALL`; `PATH` and `SLURM_CONF` are always among it |
"""

_HET = """## Heterogeneous jobs

Names that end in a number are those of a further component: `cpu1`, `gres1` of the second, `cpu2` of the third. A
number that is left out is an error. {indexed} can have one. Account and walltime hold for all components; raw lines
belong to the first. Slurm takes no arrays of such jobs: each is handed over alone. `launcher: srun` starts the
command in all components.
"""

_TEMPLATE = """## The script, and a site's own template

`etc/templates/slurm/batch.sh.j2` makes the script of each batch; `templates: {batch.sh: FILE}` of a site replaces
it. It is a Jinja template with one variable, `job`:

| | |
|---|---|
| `job.lines` | the options, a line each, without `#SBATCH` |
| `job.run` | the line that runs the member, in a shell of its own; it must be there |
| `job.run_here` | the same without another shell, for a script that does nothing else, with `#!/bin/sh` |
| `job.name`, `job.array` | name of the job, number of tasks (0 for a single job) |
| `job.folder`, `job.table`, `job.ends`, `job.wrapper` | paths of the run, its members, their ends, the program |

It is tried when a run is prepared: what cannot be written into a script, such as a line feed in a path, is said
then.
"""

_STATES = """## States

`successIf: {slurm_job_state_codes: FAILED}` is a success where the job fails as expected. buildtest's `status:` map
is read too, and met by any one of its keys unless it says `mode: and`: `returncode` (one or several), `regex:
{stream, exp}` (both streams are one log here), `runtime: {min, max}`, `slurm_job_state_codes`. A key that is none
of these is an error.

| state | `successIf.state` |
|---|---|
"""


def page() -> str:
    """The text of the page."""
    keys = json.loads((ROOT / "etc" / "schema" / "site.json").read_text("utf-8"))["properties"]["slurm"]["properties"]
    return "\n".join([_HEAD, *_keys(keys), *_rest()]).rstrip() + "\n"


def _keys(keys: dict[str, Any]) -> Iterator[str]:
    plain = {name: entry for name, entry in keys.items() if name not in SPELLINGS and not name.endswith("1")}
    of_sites = {*OF_SITES, "engineJob"}
    yield from _table("How Slurm is spoken to", {name: entry for name, entry in plain.items() if name in of_sites})
    yield from _table("What jobs ask for", {name: entry for name, entry in plain.items() if name not in of_sites})
    others = ", ".join(f"`{other}` is `{name}`" for other, name in SPELLINGS.items())
    yield f"Other names: {others}.\n"


def _table(title: str, keys: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| key | type | |"
    yield "|---|---|---|"
    for name, entry in keys.items():
        yield (
            "| "
            + " | ".join(cell.replace("|", "\\|") for cell in (f"`{name}`", _type(entry), entry["description"]))
            + " |"
        )
    yield ""


def _type(entry: dict[str, Any]) -> str:
    if "enum" in entry:
        return ", ".join(f"`{choice}`" for choice in entry["enum"] if choice is not None)
    kinds = entry["type"]
    return " or ".join(kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null")


def _rest() -> Iterator[str]:
    yield _HET.format(indexed=", ".join(f"`{name}`" for name in INDEXED))
    yield f"## On the command line\n\n```text\n{BACKEND_HELP}\n```\n"
    yield "They win over all else. `-c`, `--mem` and `--tmp` are `requestCpus`, `requestMemory` and `requestDisk` of"
    yield "all jobs, and grow as these do when a job is tried again.\n"
    yield _TEMPLATE
    yield _STATES.rstrip("\n")
    for name, states in STATES.items():
        yield f"| `{name}` | {' or '.join(f'`{state}`' for state in states)} |"
    yield "\n## What ping asks\n"
    yield f"It takes {PATIENCE_S:.0f} s at most for all questions together, and submits nothing. Which of the sources"
    yield "of what happened to jobs work, and what is not known without one:\n"
    yield "| source | without it |"
    yield "|---|---|"
    for name, words in LOST.items():
        yield f"| `{name}` | {words} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
