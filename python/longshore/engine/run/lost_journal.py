"""Finds lives that a journal must have had and lacks: without them, an engine would run finished jobs again."""

from __future__ import annotations

from longshore.contract.context import RunPaths
from longshore.engine.rundir.journal_chain import lives
from longshore.errors import SubmissionRefusedError
from longshore.model.run.moment import format_timestamp
from longshore.world.runs.run_directory import read_card, read_snapshot


def refuse_if_lives_lost(run: RunPaths) -> None:
    """Refuse to start an engine that would not know what earlier engines did.

    Raises
    ------
    SubmissionRefusedError
        The journal lacks a life of an engine.
    """
    if lost := _describe_lost_lives(run):
        raise SubmissionRefusedError(
            f"the journal of '{run.root}' is incomplete: {lost}; which jobs succeeded is not known, and a new engine "
            "would run them again",
            hint=f"Bring the files of '{run.journal}' back, from a backup or a copy of the run. "
            "If they are lost, 'submit' starts a new run.",
        )


def _describe_lost_lives(run: RunPaths) -> str:
    numbers = [number for number, _ in lives(run.journal)]
    newest = max(numbers, default=0)
    missing = sorted({*range(1, newest)} - {*numbers})
    if missing:
        return f"there is no '{run.journal}/{missing[0]:04}.jsonl'"
    snapshot = read_snapshot(run)
    if snapshot is not None and snapshot.life > newest:
        return f"'{run.status.name}' was written by engine {snapshot.life}, which has no file in '{run.journal}'"
    if (keeper := _newest_life_with_keeper(run)) > newest:
        return f"'{run.keeper}' has records of engine {keeper}, which has no file in '{run.journal}'"
    submissions = read_card(run).submissions
    if submissions and not newest:
        first = submissions[0]
        when = f"{format_timestamp(first.at)} by '{first.user}' on '{first.host}'"
        return f"the run was submitted {when}, and '{run.journal}' has no events"
    return ""


def _newest_life_with_keeper(run: RunPaths) -> int:
    """Return the newest life that had a keeper; 0 if none had."""
    names = [path.name.partition(".")[0] for path in run.keeper.glob("*.jsonl")]
    return max((int(name) for name in names if name.isdecimal()), default=0)
