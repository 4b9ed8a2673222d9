"""Survey of a damaged journal: all that is wrong, what counts all the same, and which jobs the rest may concern.

The reason is in decision 0061.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec

from longshore.engine.journal.chain import LifeExtent, decode_if_event, measure_lives
from longshore.engine.journal.read_journal import changed_line, other_file, read_blocks
from longshore.model.event import Event, Life, Restarted, Seal, Sealed
from longshore.model.json_lines import SEED, find_bad_lines
from longshore.model.report import Damage, DamagedError
from longshore.system.reading import read_file

if TYPE_CHECKING:
    from longshore.engine.state.run_state import RunState

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


def find_unknown_jobs(state: RunState, survey: JournalSurvey) -> frozenset[int]:
    """Return the jobs whose state is not known, after a replay of the intact part.

    A job that was over keeps its state, unless a later event names it or the lost part may have restarted it.
    """
    from longshore.engine.state.job_codes import OVER

    if survey.may_restart:
        return frozenset(range(state.size))
    named = {job for event in survey.later for job in _jobs_of(event) if 0 <= job < state.size}
    return frozenset(named | {job for job, code in enumerate(state.code) if code not in OVER})


def _jobs_of(event: Event) -> Iterator[int]:
    job: int | None = getattr(event, "j", None)
    if job is not None:
        yield job
    jobs: Collection[int | tuple[int, int]] = getattr(event, "jobs", None) or ()
    for each in jobs:
        yield each if isinstance(each, int) else each[0]


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
