"""The ``#SBATCH`` lines of a script (pure functions)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from longshore.batch.scripts.job_spec import JobSpec
from longshore.batch.scripts.lines import fit_line
from longshore.services.slurm.render.sbatch_options import SbatchOptions, omitted_options


def directives(job: JobSpec, components: Sequence[SbatchOptions]) -> Iterator[str]:
    """Return the options of a job and of each of its components, without ``#SBATCH``."""
    omitted = omitted_options(job.own)
    yield from (_option(name, value) for name, value in _of_all(job) if name not in omitted)
    first, *others = components
    yield from (_option(name, value) for name, value in first.pairs())
    if job.warning_s:
        # Slurm may send the signal up to a minute early (sbatch(1): --signal).
        yield f"--signal=B:USR1@{job.warning_s}"
    # After ours: the later of two lines counts. In a heterogeneous job they belong to the first component.
    yield from (fit_line("directives", line) for line in job.raw)
    for component in () if job.is_engine else others:
        yield "hetjob"
        yield from (_option(name, value) for name, value in component.pairs())


def _of_all(job: JobSpec) -> Iterator[tuple[str, str | None]]:
    yield "job-name", job.name
    if job.array:
        yield "array", f"0-{job.array - 1}"
    yield "comment", f"longshore {'engine ' if job.is_engine else ''}run={job.run_name}"
    yield "chdir", job.folder
    yield "output", output_pattern(job.output)
    yield "open-mode", "append"
    # Inherited variables are already selected: sbatch sees no others.
    yield "export", "ALL"
    yield "requeue" if job.is_engine or job.own.get("requeue") else "no-requeue", None


def output_pattern(path: str) -> str:
    """Escape a path as Slurm's pattern of file names (sbatch(1): filename pattern) that means just this path."""
    # With a backslash anywhere, Slurm replaces nothing, percent signs neither, and removes the backslash itself.
    return path.replace("\\", "\\\\") if "\\" in path else path.replace("%", "%%")


def _option(name: str, value: str | None) -> str:
    if value is None:
        return f"--{name}"
    value = fit_line(name, value)
    return (
        f"--{name}={value}" if re.fullmatch(r"[\w@%+=:,./&|*\[\]-]*", value, re.ASCII) else f"--{name}={_quoted(value)}"
    )


def _quoted(value: str) -> str:
    """Quote a value for sbatch's parser of ``#SBATCH`` lines: in double quotes, its quotes escaped."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
