"""What is wrong with a journal: damaged lives and those that it lacks, what counts all the same, and who may go on.

Decision 0061 says why a loss is accepted, and not guessed.

"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.model.event import ACCEPT_LOSS, MOST_LIVES, Event, Life, Restarted, Seal, Sealed
from longshore.model.json_lines import SEED, find_bad_lines
from longshore.model.report import Damage, DamagedError
from longshore.model.wording import format_timestamp
from longshore.rundir.find_run import hint_reference
from longshore.rundir.journal import (
    LifeExtent,
    changed_line,
    decode_if_event,
    first_event,
    lives,
    measure_lives,
    other_file,
    read_blocks,
)
from longshore.rundir.run_directory import read_card, read_snapshot
from longshore.rundir.submissions import manifest_path
from longshore.system.reading import read_file

# Survey of damaged lives: all that is wrong, and what counts all the same.


_MOST_LINES: Final = 20
"""Bad lines of one file that are named."""


class JournalSurvey(msgspec.Struct, frozen=True):
    """Survey of a journal.

    Attributes
    ----------
    damages
        All damages; none if the journal is intact.
    intact
        What counts of each life until the loss is accepted: whole lives, a part of the first damaged one, and nothing
        of those after it.
    later
        Readable events after the first damage.
    may_restart
        Whether the lost part may have restarted jobs that were over.
    """

    damages: tuple[Damage, ...]
    intact: tuple[Seal, ...] = ()
    later: tuple[Event, ...] = ()
    may_restart: bool = False


def survey_journal(folder: Path) -> JournalSurvey:
    """Return the damage of a journal; reads an intact journal once.

    Raises
    ------
    RunUnreadableError
        A file is of a newer format, or cannot be read.
    """
    try:
        for _ in read_blocks(folder)[0]:
            pass
    except DamagedError as error:
        return _survey_damaged(folder, error.damage)
    return JournalSurvey(())


def _survey_damaged(folder: Path, first: Damage) -> JournalSurvey:
    damages: list[Damage] = []
    intact: list[Seal] = []
    later: list[Event] = []
    may_restart = False
    next_life = 1
    for extent in measure_lives(folder):
        # Lives that are missing: nothing of them counts.
        intact += [Seal(life=life, bytes=0, crc=0) for life in range(next_life, extent.life)]
        next_life = extent.life + 1
        was_intact = not damages
        good, lines, wrong = _read_life_by_line(extent)
        damages += wrong
        intact.append(Seal(life=extent.life, bytes=good, crc=crc32(lines[:good])) if was_intact else _void(extent))
        events = [event for offset, event in _events(lines, wrong, extent) if offset >= good or not was_intact]
        later += events
        if wrong:
            may_restart |= _may_restart(lines[:good])
    if not damages:
        # The file changed meanwhile, or its events are not numbered as they should be.
        damages.append(first)
    return JournalSurvey(tuple(damages), tuple(intact), tuple(later), may_restart)


def _void(extent: LifeExtent) -> Seal:
    return Seal(life=extent.life, bytes=0, crc=0)


def _read_life_by_line(extent: LifeExtent) -> tuple[int, bytes, list[Damage]]:
    """Return the valid length of a life, its content, and its damage."""
    wrong = [extent.damage] if extent.damage else []
    try:
        text = read_file(extent.path)
    except FileNotFoundError:
        return 0, b"", wrong
    text = text[: extent.end] if extent.end else text[: text.rfind(b"\n") + 1]
    good = len(text) if extent.end else 0
    if extent.checked:
        bad = list(islice(find_bad_lines(text, SEED), _MOST_LINES))
        wrong += [changed_line(extent.path, each.offset) for each in bad if extent.end]
        good = min([good, *(each.offset for each in bad)])
    else:
        offset = 0
        for line in text.splitlines(keepends=True):
            if decode_if_event(line) is None:
                wrong.append(changed_line(extent.path, offset))
                good = min(good, offset)
            offset += len(line)
    if not wrong and extent.crc not in {None, crc32(text)}:
        wrong.append(other_file(extent.path))
    return good, text, wrong


def _events(lines: bytes, wrong: Sequence[Damage], extent: LifeExtent) -> Iterator[tuple[int, Event]]:
    """Yield the readable events of a life with their offsets, without the lines known to be bad."""
    bad = {each.offset for each in find_bad_lines(lines, SEED)} if extent.checked and wrong else set()
    offset = 0
    for line in lines.splitlines(keepends=True):
        if offset not in bad and (event := decode_if_event(line)) is not None and not isinstance(event, Life | Sealed):
            yield offset, event
        offset += len(line)


def _may_restart(intact: bytes) -> bool:
    """Tell whether the lost part of a life may have restarted jobs, by the part that is intact."""
    events = [decode_if_event(line) for line in islice(intact.splitlines(keepends=True), 100)]
    if not events or not isinstance(events[0], Life):
        return True
    return events[0].by == "restart" and not any(isinstance(event, Restarted) for event in events)


# Lives that a journal must have had and lacks: without them, an engine would run finished jobs again.


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
    heads = [_head_of(path) for _, path in lives(run.journal)]
    newest = max((number for number, head in enumerate(heads) if head and head.by == ACCEPT_LOSS), default=0)
    return frozenset(head.s for head in heads[:newest] if head)


def refuse_lost_manifest(run: RunPaths) -> None:
    """Refuse to start an engine with the files of an earlier submission, because those of the newest are not known.

    Raises
    ------
    SubmissionRefusedError
        The newest submission that a life names has not the manifest that its engine read.
    """
    newest = next((life for _, path in reversed(lives(run.journal)) if (life := _head_of(path)) and life.s), None)
    if newest is not None and (what := _describe_manifest(run, newest)):
        raise SubmissionRefusedError(
            f"the newest submission of '{run.root}' is not complete: {what}",
            hint="Bring the file back from a copy of the run. Without a copy, submit a new run that keeps what is up "
            f"to date: longshore submit FILE --reuse {hint_reference(run)}",
        )


def _head_of(path: Path) -> Life | None:
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
