"""Finds jobs by name, beginning of a name, number or label."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence

from longshore.app.runs.open_run import OpenRun
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import RunNotFoundError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean

_MAX_DIGITS = 18
_MAX_NAMES = 5
"""Names listed in a message."""
_MAX_COMPARED = 2000
"""Names compared with an unknown one: a hundred thousand would take seconds."""


def find_job(opened: OpenRun, jobs: JobTable, reference: str) -> int:
    """Return the number of a job given by name, unique beginning of a name, or number.

    Raises `RunNotFoundError` if no job or several match.
    """
    names = jobs.names
    try:
        return names.index(reference)
    except ValueError:
        pass
    # Python converts no number of thousands of digits.
    is_number = reference.isascii() and reference.isdigit() and len(reference) <= _MAX_DIGITS
    if is_number and int(reference) < len(jobs):
        return int(reference)
    fitting = [job for job, name in enumerate(names) if reference and name.startswith(reference)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise RunNotFoundError(
            f"'{reference}' is the beginning of {len(fitting)} job names of run '{opened.card.id}': "
            + first_names([names[job] for job in fitting]),
            hint=_longer_name_hint(opened.reference, jobs, reference),
        )
    raise RunNotFoundError(
        f"run '{opened.card.id}' has no job '{reference}'", hint=_hint(opened.card.id, jobs, reference)
    )


def find_jobs_of_labels(opened: OpenRun, jobs: JobTable, labels: Collection[str]) -> list[int]:
    """Return the numbers of jobs of some labels; raises `RunNotFoundError` for an unknown label."""
    known = sorted(jobs.labels)
    for label in sorted(set(labels).difference(known)):
        hint = did_you_mean(label, known, likeness=NAME_LIKENESS) or f"It has {first_names(known)}."
        raise RunNotFoundError(f"run '{opened.card.id}' has no label '{label}'", hint=hint)
    return jobs.select(labels=labels)


def first_names(names: Sequence[str]) -> str:
    """Format the first few names and the number of the others."""
    return first_of([f"'{name}'" for name in names], _MAX_NAMES)


def first_of(texts: Sequence[str], number: int) -> str:
    """Format the first few texts and the number of the others."""
    more = f" and {len(texts) - number} more" if texts[number:] else ""
    return ", ".join(texts[:number]) + more


def _longer_name_hint(run: str, jobs: JobTable, reference: str) -> str:
    if reference in jobs.labels:
        return f"Give more of the name, or take the label: longshore logs {run} --label {shlex.quote(reference)}"
    return "Give more of the name."


def _hint(run: str, jobs: JobTable, reference: str) -> str:
    if reference in jobs.labels:
        return f"'{reference}' is a label; a job is named like '{jobs.names[jobs.select(labels=[reference])[0]]}'."
    return (
        did_you_mean(reference, _similar_names(jobs.names, reference), likeness=NAME_LIKENESS)
        or f"'longshore report {run} --json' names all jobs."
    )


def _similar_names(names: Sequence[str], reference: str) -> Iterator[str]:
    """Yield the names that share the longest prefix with an unknown name."""
    for length in range(len(reference) - 1, -1, -1):
        found = [name for name in names if name.startswith(reference[:length])]
        if found:
            yield from found[:_MAX_COMPARED]
            return
