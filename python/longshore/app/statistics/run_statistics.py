"""Statistics of one run or of several: finds the runs and labels that a user names, and summarizes their attempts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from longshore.app.inspect.find_jobs import first_names
from longshore.app.runs.open_run import OpenRun, open_run
from longshore.app.statistics.attempt_statistics import GroupedStatistics, summarize_attempts
from longshore.app.statistics.run_attempts import RunAttempts, read_attempts
from longshore.errors import RunNotFoundError, UnknownRunError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.model.workflow.collection_pause import collection_paused
from longshore.model.workflow.request import Request

_LAST = "@last"


class RunStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the attempts of a run, or of those of some of its labels.

    `requests` has the request of each label's first job: what its first attempts ask for. `kept` is the number of jobs
    whose results were kept from another run.
    """

    opened: OpenRun
    grouped: GroupedStatistics
    requests: Mapping[str, Request]
    kept: int = 0


def read_statistics(opened: OpenRun, *, labels: Collection[str] = ()) -> RunStatistics:
    """Return the statistics of a run; `labels` restricts them to these.

    Raises `UnreachableError` if the workload manager has the events and does not answer.
    """
    with collection_paused():
        return summarize_run_attempts(read_attempts(opened), labels=labels)


def summarize_run_attempts(found: RunAttempts, *, labels: Collection[str] = ()) -> RunStatistics:
    """Return the statistics of attempts that were read; `labels` restricts them to these."""
    wanted = [label in labels if labels else True for label in found.labels]
    attempts = found.measures()
    if labels:
        attempts = (attempt for attempt in attempts if wanted[found.label_of[attempt.job]])
    grouped = summarize_attempts(
        attempts,
        found.request_of_job,
        labels=found.labels,
        label_of=found.label_of,
        jobs_of_labels=[number if chosen else 0 for number, chosen in zip(found.jobs_of_labels, wanted, strict=True)],
    )
    if labels:
        chosen = {label: each for label, each in grouped.labels.items() if label in labels}
        grouped = GroupedStatistics(total=grouped.total, labels=chosen, hosts=grouped.hosts)
    requests = {label: each[0] for label, each in found.table.requests_of_labels.items()}
    kept = sum(wanted[found.label_of[job]] for job in found.kept_jobs)
    return RunStatistics(opened=found.opened, grouped=grouped, requests=requests, kept=kept)


def find_runs_and_labels(
    references: Sequence[str], labels: Collection[str] = ()
) -> tuple[Sequence[OpenRun], Sequence[str]]:
    """Return the runs and labels that a user names; each of `references` is a run, or else a label of one of the runs.

    Without any run, the last one is meant. `labels` are certainly labels.

    Raises
    ------
    RunNotFoundError
        A name is neither a run nor a label of the runs.
    """
    runs: dict[str, OpenRun] = {}
    others: dict[str, RunNotFoundError] = {}
    for reference in references:
        try:
            opened = open_run(reference)
        except RunNotFoundError as error:
            others[reference] = error
        else:
            runs.setdefault(str(opened.run.root), opened)
    if not runs:
        opened = _last_run(others)
        runs[str(opened.run.root)] = opened
    known = list(dict.fromkeys(label for opened in runs.values() for label in opened.card.labels))
    named = _name_runs([opened.card.id for opened in runs.values()])
    for name, unknown in others.items():
        if name not in known:
            raise _unknown_name(name, unknown, known, named)
    for label in labels:
        if label not in known:
            raise RunNotFoundError(f"there is no label '{label}' in {named}", hint=_near_labels(label, known))
    return list(runs.values()), list(dict.fromkeys((*others, *labels)))


def _unknown_name(name: str, unknown: RunNotFoundError, labels: Sequence[str], named: str) -> RunNotFoundError:
    """Return the error for a name that is no label, and no run or one that cannot be opened."""
    if not isinstance(unknown, UnknownRunError) or name.startswith(("@", ".", "~")) or "/" in name:
        return unknown
    near = did_you_mean(name, labels, likeness=NAME_LIKENESS)
    if not near and unknown.hint.startswith("Did you mean"):
        near = unknown.hint
    return RunNotFoundError(
        f"'{name}' is neither a run nor a label of {named}", hint=near or _near_labels(name, labels)
    )


def _near_labels(name: str, labels: Sequence[str]) -> str:
    near = did_you_mean(name, labels, likeness=NAME_LIKENESS)
    return near or (f"Its labels: {first_names(sorted(labels))}." if labels else "It has no label.")


def _name_runs(ids: Sequence[str]) -> str:
    return f"run '{ids[0]}'" if len(ids) == 1 else f"the runs {first_names(ids)}"


def _last_run(others: Mapping[str, RunNotFoundError]) -> OpenRun:
    try:
        return open_run(_LAST)
    except RunNotFoundError:
        if not others:
            raise
        # It names what was typed.
        raise next(iter(others.values())) from None
