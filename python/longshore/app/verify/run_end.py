"""Checks of a journal's newest life against other records: the seal of the run's end, and the keeper's records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from longshore.contract.context import RunPaths
from longshore.engine.journal.chain import LifeExtent, measure_lives, read_end_seal
from longshore.engine.journal.read_journal import read_life
from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.lines.codec import decode_events
from longshore.model.run.damage import Damage
from longshore.model.run.event import Finished, Started, Submitting
from longshore.world.files.read_file import read_file

_START = b'"r":"start"'


class _StartRecord(msgspec.Struct, frozen=True, gc=False):
    """A start, as a keeper records it."""

    j: int
    a: int
    t: float


def is_sealed(run: RunPaths, extents: Sequence[LifeExtent]) -> bool:
    """Return whether the run is over and its newest life has the seal of the end."""
    try:
        seal = read_end_seal(run.journal)
    except RunUnreadableError:
        return False
    return seal is not None and bool(extents) and seal.life == extents[-1].life


def note_missing_seal(run: RunPaths, extents: Sequence[LifeExtent]) -> Iterator[str]:
    """Note a newest life that ends with the end of the run, and has no seal: as after a crash, or it was deleted."""
    if not extents or is_sealed(run, extents):
        return
    last = b""
    for block in read_life(extents[-1]):
        last = block.lines[block.lines.rfind(b"\n", 0, -1) + 1 :]
    if last and isinstance(decode_events(last, path=str(extents[-1].path))[-1], Finished):
        yield (
            f"the journal of life {extents[-1].life} ends with the end of the run, which 'journal/end.json' does not "
            "seal: the engine died in between, or the file is gone"
        )


def count_missing_starts(run: RunPaths, extents: Sequence[LifeExtent]) -> int:
    """Count starts in the newest life of a local run without an end that no keeper's record has.

    An engine that resumes the run learns from these records how the attempts ended.
    """
    if not run.keeper.is_dir() or not extents or is_sealed(run, extents):
        return 0
    missing = {
        (event.j, event.a, event.at)
        for block in read_life(extents[-1])
        for event in decode_events(block.lines, path=str(block.path))
        if isinstance(event, Started)
    }
    if missing:
        for path in sorted(run.keeper.glob("*.jsonl")):
            missing.difference_update(_starts(path))
    return len(missing)


def check_submissions(run: RunPaths, extents: Sequence[LifeExtent]) -> Iterator[Damage]:
    """Check that the newest life of a local run without an end has every attempt that its keepers started.

    A batch is durable in the journal before a keeper starts it: a crash loses no such line, a cut does.
    """
    if not run.keeper.is_dir() or not extents or is_sealed(run, extents):
        return
    newest = extents[-1]
    # The keepers first: a live engine submits more in between.
    records = [start for path in run.keeper.glob(f"{newest.life:04}.*.jsonl") for start in _starts(path)]
    unknown = {(job, attempt) for job, attempt, _ in records}
    # The life is measured anew, for the same reason.
    for block in read_life(measure_lives(run.journal)[-1]) if unknown else ():
        for event in decode_events(block.lines, path=str(block.path)):
            if isinstance(event, Submitting):
                unknown.difference_update(event.jobs)
    if unknown:
        what = f"it lacks the submission of {len(unknown)} attempts that '{run.keeper}' has started"
        yield Damage(path=str(newest.path), what=what, unknown="a resumed run would start these jobs again")


def _starts(path: Path) -> Iterator[tuple[int, int, float]]:
    for line in read_file(path).split(b"\n"):
        if _START in line:
            try:
                record = msgspec.json.decode(line, type=_StartRecord)
            except DECODE_ERRORS:
                continue
            yield record.j, record.a, record.t
