"""Finds lives that a journal must have had and lacks: without them, an engine would run finished jobs again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longshore.contract.service import RunPaths
from longshore.engine.journal.chain import first_event, lives, measure_lives
from longshore.errors import SubmissionRefusedError
from longshore.model.event import ACCEPT_LOSS, MOST_LIVES, Life
from longshore.model.report import Damage, DamagedError
from longshore.model.wording import format_timestamp
from longshore.rundir.find_run import hint_reference
from longshore.rundir.run_directory import read_card, read_snapshot
from longshore.rundir.submissions import manifest_path
from longshore.system.reading import read_file

_MOST_DIGITS = len(str(MOST_LIVES))


def refuse_if_lives_lost(run: RunPaths) -> None:
    """Refuse to start an engine that would not know what earlier engines did.

    Raises
    ------
    SubmissionRefusedError
        The journal lacks a life of an engine.
    """
    if lost := find_lost_lives(run):
        raise SubmissionRefusedError(
            f"the journal of '{run.root}' is incomplete: {lost}; which jobs succeeded is not known, and a new engine "
            "would run them again",
            hint=f"Bring the files of '{run.journal}' back, from a backup or a copy of the run. "
            f"To continue without them: longshore resume {hint_reference(run)} --accept-loss",
        )


def find_lost_lives(run: RunPaths) -> Damage | None:
    """Return what the journal lacks by what other files know; ``None`` if it lacks nothing."""
    extents = measure_lives(run.journal)
    damage = next((each.damage for each in extents if each.damage), None)
    if damage is not None:
        return damage
    newest = extents[-1].life if extents else 0
    snapshot = read_snapshot(run)
    if snapshot is not None and snapshot.life > newest:
        return _lost(run, f"'{run.status.name}' was written by engine {snapshot.life}, which has no file there")
    if (keeper := _newest_life_with_keeper(run)) > newest:
        return _lost(run, f"'{run.keeper}' has records of engine {keeper}, which has no file there")
    submissions = read_card(run).submissions
    if submissions and not newest:
        first = submissions[0]
        when = f"{format_timestamp(first.at)} by '{first.user}' on '{first.host}'"
        return _lost(run, f"the run was submitted {when}, and it has no events")
    return None


def _lost(run: RunPaths, what: str) -> Damage:
    return Damage(path=str(run.journal), what=what, unknown="which jobs succeeded since is not known")


def find_lost_manifests(run: RunPaths) -> Iterator[Damage]:
    """Yield the lives, newest first, whose submission has not the manifest that its engine read.

    Lives before an accepted loss are left out: their loss was accepted with it.

    Raises
    ------
    RunUnreadableError
        The first event of a life cannot be read.
    """
    for _, path in reversed(lives(run.journal)):
        life = first_event(path)
        if life.by == ACCEPT_LOSS:
            return
        if life.s and (what := _describe_manifest(run, life)):
            unknown = "from which files this engine started jobs is not known"
            yield Damage(path=str(path), line=1, what=what, unknown=unknown)


def accepted_submissions(run: RunPaths) -> frozenset[int]:
    """Return the numbers of submissions whose lives came before an accepted loss."""
    heads = [_read_head(path) for _, path in lives(run.journal)]
    newest = max((number for number, head in enumerate(heads) if head and head.by == ACCEPT_LOSS), default=0)
    return frozenset(head.s for head in heads[:newest] if head)


def refuse_lost_manifest(run: RunPaths) -> None:
    """Refuse to start an engine with the files of an earlier submission, because those of the newest are not known.

    Raises
    ------
    SubmissionRefusedError
        The newest submission that a life names has not the manifest that its engine read.
    """
    newest = next((life for _, path in reversed(lives(run.journal)) if (life := _read_head(path)) and life.s), None)
    if newest is not None and (what := _describe_manifest(run, newest)):
        raise SubmissionRefusedError(
            f"the newest submission of '{run.root}' is not complete: {what}",
            hint="Bring the file back from a copy of the run. Without a copy, submit a new run that keeps what is up "
            f"to date: longshore submit FILE --reuse {hint_reference(run)}",
        )


def _read_head(path: Path) -> Life | None:
    """Read the first event of a life; ``None`` for a damaged one, whose loss may have been accepted."""
    try:
        return first_event(path)
    except DamagedError:
        return None


def _describe_manifest(run: RunPaths, life: Life) -> str:
    """Describe the damage of the manifest that a life names; empty if there is none."""
    # Imported late: the library of digests is large.
    from hashlib import sha256

    manifest = manifest_path(run, life.s)
    try:
        digest = sha256(read_file(manifest)).hexdigest()
    except OSError as error:
        return f"its submission has no readable manifest '{manifest}': {error.strerror}"
    return "" if digest == life.manifest else f"its submission had another manifest than '{manifest}'"


def newest_known_life(run: RunPaths) -> int:
    """Return the number of the newest life that any file of the run knows; 0 without a life."""
    snapshot = read_snapshot(run)
    numbers = (each.life for each in measure_lives(run.journal))
    return max(*numbers, _newest_life_with_keeper(run), snapshot.life if snapshot else 0, 0)


def _newest_life_with_keeper(run: RunPaths) -> int:
    """Return the newest life that had a keeper; 0 if none had."""
    names = [path.name.partition(".")[0] for path in run.keeper.glob("*.jsonl")]
    numbers = (int(name) for name in names if name.isdecimal() and len(name) <= _MOST_DIGITS)
    return max((number for number in numbers if number <= MOST_LIVES), default=0)
