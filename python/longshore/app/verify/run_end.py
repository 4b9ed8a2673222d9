"""Checks of a journal's newest life against other records: its seal, and records of keepers and batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import Ended, Event, Finished, Lost, Started, Submitting, decode_events
from longshore.model.report import Damage
from longshore.model.wording import count_noun
from longshore.rundir.batch_records import life_of_tag, read_end_record
from longshore.rundir.check_records import end_record_paths
from longshore.rundir.find_run import hint_reference
from longshore.rundir.journal import END_SEAL, LifeExtent, first_event, measure_lives, read_end_seal, read_life
from longshore.system.host import boot_id
from longshore.system.reading import read_file

_LACKS_STARTS: Final = "it lacks the records of {} starts that the journal has"
_START_OR_END: Final = (b'{"r":"start"', b'{"r":"end"')


class _KeeperRecord(msgspec.Struct, frozen=True, gc=False):
    """A start or end, as a keeper records it."""

    r: str
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


def check_seal(run: RunPaths, extents: Sequence[LifeExtent]) -> Iterator[Damage]:
    """Check that a newest life that ends with the end of the run has its seal: nothing else vouches for its length.

    Journals of the older format have none.
    """
    if not extents or not extents[-1].checked or is_sealed(run, extents):
        return
    last = b""
    for block in read_life(extents[-1]):
        last = block.lines[block.lines.rfind(b"\n", 0, -1) + 1 :]
    if last and isinstance(decode_events(last, path=str(extents[-1].path))[-1], Finished):
        yield Damage(
            path=str(run.journal / END_SEAL),
            what=f"it does not seal life {extents[-1].life}, which ends with the end of the run: the engine died in "
            "between or could not write it (its log tells), or the file was removed",
            unknown=f"whether the journal is complete is not known; to seal it: longshore resume {hint_reference(run)}",
        )


def check_starts(run: RunPaths, extents: Sequence[LifeExtent]) -> Iterator[Damage]:
    """Check that keepers' records have the starts that the newest life of a run without an end has.

    An engine that resumes the run learns from these records how the attempts ended. Keepers do not synchronize them, so
    a loss of power may remove them without any damage.
    """
    if (missing := _count_missing_starts(run, extents)) and _is_of_this_boot(extents[-1]):
        yield Damage(
            path=str(run.keeper), what=_LACKS_STARTS.format(missing), unknown="how these attempts ended is not known"
        )


def note_missing_starts(run: RunPaths, extents: Sequence[LifeExtent]) -> Iterator[str]:
    """Note starts that keepers' records lack, as after a loss of power."""
    if (missing := _count_missing_starts(run, extents)) and not _is_of_this_boot(extents[-1]):
        yield (
            f"'{run.keeper}': {_LACKS_STARTS.format(missing)}, as after a loss of power: the machine was started anew "
            "since, or this is another one; a resumed run counts these attempts as lost"
        )


def _is_of_this_boot(extent: LifeExtent) -> bool:
    return first_event(extent.path).boot == boot_id()


def _count_missing_starts(run: RunPaths, extents: Sequence[LifeExtent]) -> int:
    if not run.keeper.is_dir() or not extents or is_sealed(run, extents):
        return 0
    missing = {(event.j, event.a, event.at) for event in _events(extents[-1]) if isinstance(event, Started)}
    if missing:
        for path in sorted(run.keeper.glob("*.jsonl")):
            missing.difference_update((each.j, each.a, each.t) for each in _keeper_records(path) if each.r == "start")
    return len(missing)


def check_submissions(run: RunPaths, extents: Sequence[LifeExtent]) -> Iterator[Damage]:
    """Check that the newest life of a run without an end records all that was started and submitted.

    A batch is durable in the journal before a keeper starts it or it is submitted: a crash loses no such line, a cut
    does.
    """
    if not extents or is_sealed(run, extents):
        return
    newest = extents[-1]
    # The others first: a live engine submits more in between.
    unknown = {(record.j, record.a) for record in _records_of_life(run, newest.life) if record.r == "start"}
    tags = {path.stem for path in run.batches.glob("*.json")} | {path.parent.name for path in end_record_paths(run)}
    tags = {tag for tag in tags if life_of_tag(tag) == newest.life}
    # The life is measured anew, for the same reason.
    for event in _events(measure_lives(run.journal)[-1]) if unknown or tags else ():
        if isinstance(event, Submitting):
            unknown.difference_update(event.jobs)
            tags.discard(event.tag)
    lacks = [f"{len(unknown)} attempts that '{run.keeper}' has started"] if unknown else []
    lacks += [f"{len(tags)} batches that '{run.batches}' has, such as '{min(tags)}'"] if tags else []
    for each in lacks:
        what = f"it lacks the submission of {each}"
        yield Damage(path=str(newest.path), what=what, unknown="a resumed run would start these jobs again")


def note_missing_ends(run: RunPaths, extents: Sequence[LifeExtent]) -> Iterator[str]:
    """Note ends of attempts that only keepers or members of batches recorded, for a run without an engine."""
    if not extents or is_sealed(run, extents):
        return
    life = extents[-1].life
    ended = {run.keeper: {(each.j, each.a) for each in _records_of_life(run, life) if each.r == "end"}}
    paths = [path for path in end_record_paths(run) if life_of_tag(path.parent.name) == life]
    ended[run.ends] = {(record.j, record.a) for record in map(read_end_record, paths) if record}
    known = {(event.j, event.a) for event in _events(extents[-1]) if isinstance(event, Ended | Lost)}
    for folder, ends in ended.items():
        if missing := ends - known:
            yield (
                f"the journal of life {life} lacks the ends of {count_noun(len(missing), 'attempt')} that '{folder}' "
                "has, as after a crash or a cut: 'resume' takes them from there"
            )


def _events(extent: LifeExtent) -> Iterator[Event]:
    for block in read_life(extent):
        yield from decode_events(block.lines, path=str(block.path))


def _records_of_life(run: RunPaths, life: int) -> Iterator[_KeeperRecord]:
    for path in run.keeper.glob(f"{life:04}.*.jsonl"):
        yield from _keeper_records(path)


def _keeper_records(path: Path) -> Iterator[_KeeperRecord]:
    """Yield the starts and ends in a keeper's file."""
    for line in read_file(path).split(b"\n"):
        if line.startswith(_START_OR_END):
            with suppress(*DECODE_ERRORS):
                yield msgspec.json.decode(line, type=_KeeperRecord)
