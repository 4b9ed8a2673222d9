"""Verification of a run directory: compares every file that a resume, restart or report relies on with its record.

Nothing is changed, and nothing is guessed: each finding names the file, the line, and what is not known because of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, LongshoreError, RunUnreadableError
from longshore.model.event import Ended, Event, Finished, Lost, Started, Submitting, decode_events
from longshore.model.report import Damage, DamagedError
from longshore.model.submission import Manifest, is_source
from longshore.model.wording import count_noun
from longshore.progress import Progress
from longshore.rundir.batch_records import FENCE_MARKS, is_complete, life_of_tag, read_end_record
from longshore.rundir.check_records import (
    check_batch_record,
    check_end_record,
    check_record,
    check_record_lines,
    end_record_paths,
    is_of_this_boot,
)
from longshore.rundir.find_run import hint_reference
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import (
    END_SEAL,
    LATER_UNKNOWN,
    LifeExtent,
    first_event,
    life_path,
    measure_lives,
    read_end_seal,
    read_late_lines,
    read_life,
)
from longshore.rundir.journal_damage import accepted_submissions, find_lost_manifests
from longshore.rundir.run_directory import MANIFESTS_SINCE, read_snapshot
from longshore.rundir.submissions import (
    find_changed_files,
    manifest_numbers,
    manifest_path,
    read_job_maps,
    read_manifest,
)
from longshore.runstate.open_run import OpenRun
from longshore.system.host import boot_id
from longshore.system.reading import read_file

# The newest life, against its seal and the records of keepers and batches.


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


# All files.


_COMMANDS_UNKNOWN: Final = "which commands its jobs have is not known"
_SERVICE_UNKNOWN: Final = "what the workload manager or the jobs would execute from it is not known"
_EVENTS_UNKNOWN: Final = "what happened in the run is not known"
_PREPARED_UNKNOWN: Final = "what the run was made from is not known"
_RECORDS: Final = (
    "keeper/*.jsonl",
    "keeper/*.guard",
    "batches/**/*.json",
    "batches/**/*.jsonl",
    "ends/*/*",
    "steer/*.json",
    "wms/*.json",
)
"""Records that are written after the preparation."""

NOT_COVERED: Final = {
    "logs/": "output of jobs",
    "ends/": "of jobs that still run, or of a run that is over: the journal has all that they recorded",
    "batches/*.tsv, batches/*.parents": "tables of members, and of records that they need: their jobs read them with a "
    "shell, which has no hash",
    "tasks/": "finished tasks of jobs of several, noted by the jobs",
    "wms/outputs/": "stale and empty outputs of jobs that succeeded, noted by the jobs: a damaged record is not used",
    "keeper/": "of a run that is over: the journal has all that it recorded; of an earlier boot of this machine: what "
    "is damaged counts as lost with the machine",
    "cache/": "can be made again",
    "status.json": "can be made again",
    "cleaned.json": "explains which logs were removed",
    "engine.log": "for people",
    "engine.lock": "names the process that holds it, for messages",
    "submitting.json": "exists only during a submission",
    "wms/overrides.dag, wms/run.dag.*": "changed by the workload manager, by restarts and by hand",
    "saved graphs": "bps_clustered_qgraph and bps_generic_workflow; nothing relies on them",
    "other files": "outputs of jobs",
}
"""Files that are not checked, each with the reason."""


class Check(StrEnum):
    """How a file is checked."""

    SHA256 = "sha256"
    CHECKSUM = "checksum"
    FORM = "form"


class VerifyResult(msgspec.Struct, kw_only=True):
    """Result of the verification of a run.

    `covered` has each file that was checked, relative to the run directory, and how. `events` counts the
    events of each life of the journal. `notes` are facts that are no damage.
    """

    opened: OpenRun
    covered: dict[str, Check] = msgspec.field(default_factory=dict)
    damages: list[Damage] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    events: dict[int, int] = msgspec.field(default_factory=dict)

    @property
    def not_covered(self) -> Mapping[str, str]:
        """Files that are not checked, each with the reason."""
        return NOT_COVERED

    @property
    def is_intact(self) -> bool:
        """Whether no damage was found."""
        return not self.damages

    def is_closed(self, damage: Damage) -> bool:
        """Whether a file is there, and this user may not read it: files with secrets are their owner's alone."""
        return Path(damage.path).exists() and not os.access(damage.path, os.R_OK)


def verify_run(opened: OpenRun, progress: Progress) -> VerifyResult:
    """Check all that a resume, restart or report of a run relies on; damage is in the result, not raised."""
    result = VerifyResult(opened=opened)
    steps: tuple[tuple[str, Callable[[VerifyResult], Iterator[Damage]]], ...] = (
        ("files", _check_card),
        ("files", _check_manifests),
        ("journal", _check_journal),
        ("records", _check_records),
    )
    for what, step in steps:
        progress.stage(f"checking the {what} of run '{opened.card.id}'")
        result.damages += step(result)
    _note_cut(result)
    return result


def _check_card(result: VerifyResult) -> Iterator[Damage]:
    run = result.opened.run
    checked = result.opened.card.format >= MANIFESTS_SINCE
    result.covered[run.card.name] = Check.CHECKSUM if checked else Check.FORM
    if damage := result.opened.card_damage:
        yield damage


def _check_manifests(result: VerifyResult) -> Iterator[Damage]:
    """Check all manifests and the files in them; without any, read the workflow."""
    run = result.opened.run
    numbers = manifest_numbers(run)
    if not numbers and result.opened.card.format < MANIFESTS_SINCE:
        result.notes.append("it was prepared by an older version: it has no manifest to compare its files with")
        yield from _check_workflow(result)
        return
    newest = max(numbers, default=1)
    compared: set[tuple[str, object]] = set()
    for number in range(1, newest + 1):
        path = manifest_path(run, number)
        result.covered[path.relative_to(run.root).as_posix()] = Check.CHECKSUM
        try:
            manifest = read_manifest(run, number)
        except RunUnreadableError as error:
            if number < newest and number in accepted_submissions(run):
                result.notes.append(f"the loss of '{path.relative_to(run.root)}' was accepted")
                continue
            unknown = "whether the files of that submission are as they were is not known"
            yield Damage(path=str(path), what=_without_path(error), unknown=unknown)
            continue
        assert manifest is not None
        if manifest.number != number:
            yield Damage(path=str(path), what=f"it is the manifest of submission {manifest.number}")
        is_newest = number == newest
        yield from _check_files(result, manifest, compared, with_card=is_newest)
    if len(numbers) > 1:
        yield from _check_job_maps(result)


def _check_files(
    result: VerifyResult, manifest: Manifest, compared: set[tuple[str, object]], *, with_card: bool
) -> Iterator[Damage]:
    """Compare the files of a manifest that were not compared with the same digest before."""
    run = result.opened.run
    files = {name: digest for name, digest in manifest.files.items() if (name, digest) not in compared}
    compared |= files.items()
    result.covered |= dict.fromkeys(files, Check.SHA256)
    card_is_told = not with_card or any(damage.path == str(run.card) for damage in result.damages)
    for change in find_changed_files(run, msgspec.structs.replace(manifest, files=files)):
        if change.path != run.card.name or not card_is_told:
            unknown = _unknown_without(change.path, manifest)
            yield Damage(path=str(run.root / change.path), what=f"it {change.what}", unknown=unknown)


def _unknown_without(name: str, manifest: Manifest) -> str:
    if name == manifest.workflow:
        return _COMMANDS_UNKNOWN
    if is_source(name):
        return _PREPARED_UNKNOWN
    return _SERVICE_UNKNOWN


def _check_workflow(result: VerifyResult) -> Iterator[Damage]:
    result.covered[result.opened.run.workflow.name] = Check.FORM
    try:
        JobTable(result.opened.run, "names", "parents")
    except RunUnreadableError as error:
        yield Damage(path=str(result.opened.run.workflow), what=_without_path(error), unknown=_COMMANDS_UNKNOWN)


def _check_job_maps(result: VerifyResult) -> Iterator[Damage]:
    try:
        read_job_maps(result.opened.run)
    except RunUnreadableError as error:
        unknown = "which jobs the events of earlier submissions are about is not known"
        yield Damage(path=str(result.opened.run.submissions), what=error.message, unknown=unknown)


def _check_journal(result: VerifyResult) -> Iterator[Damage]:
    """Check the lines of every life, the chain of lives, and the submission that each names."""
    run = result.opened.run
    try:
        extents = measure_lives(run.journal)
    except (OSError, RunUnreadableError) as error:
        yield _damage_of(error, run.journal)
        return
    if (run.journal / "end.json").exists():
        result.covered["journal/end.json"] = Check.CHECKSUM
    for extent in extents:
        name = extent.path.relative_to(run.root).as_posix()
        result.covered[name] = Check.CHECKSUM if extent.checked else Check.FORM
        try:
            for block in read_life(extent):
                result.events[extent.life] = result.events.get(extent.life, 0) + block.lines.count(b"\n")
        except (OSError, RunUnreadableError) as error:
            yield _damage_of(error, extent.path)
        if late := read_late_lines(extent):
            result.covered[late.path.relative_to(run.root).as_posix()] = Check.CHECKSUM
            yield from (late.damage,) if late.damage else ()
    if not any(extent.damage for extent in extents):
        yield from _find_lost_lives(result.opened)
    try:
        result.notes += note_missing_starts(run, extents)
        yield from check_starts(run, extents)
        yield from check_submissions(run, extents)
        yield from find_lost_manifests(run)
        if not _has_engine(result.opened):
            # A live engine seals its end and takes these ends in a moment.
            yield from check_seal(run, extents)
            result.notes += note_missing_ends(run, extents)
    except (OSError, RunUnreadableError):
        # The damage of the newest life was told above, that of records is told below.
        return


def _check_records(result: VerifyResult) -> Iterator[Damage]:
    """Check the records of keeper, batches, interventions and service."""
    run = result.opened.run
    is_over = _is_over(run)
    paths = {path for pattern in _RECORDS for path in run.root.glob(pattern)}
    names = set(map(str, paths))
    for path in sorted(paths):
        name = path.relative_to(run.root).as_posix()
        folder = name.split("/")[0]
        is_void = (is_over and run.root / folder in {run.keeper, run.ends}) or _is_of_earlier_boot(run, path)
        if name in result.covered or is_void or not is_complete(str(path), names):
            continue
        try:
            content = read_file(path)
        except FileNotFoundError:
            continue  # an intervention that was just taken
        except OSError as error:
            yield Damage(path=str(path), what=f"it cannot be read: {error.strerror}")
            continue
        if run.ends in path.parents and path.parent.name != FENCE_MARKS:
            # Its values stand in it twice.
            has_checksum, damages = True, check_end_record(path)
        elif path.suffix == ".json" or run.ends in path.parents:
            check = check_batch_record if path.parent == run.batches else check_record
            has_checksum, damages = check(path, content)
        else:
            has_checksum, damages = check_record_lines(path, content)
        result.covered[name] = Check.CHECKSUM if has_checksum else Check.FORM
        yield from damages


def _find_lost_lives(opened: OpenRun) -> Iterator[Damage]:
    # Whether its service has the events itself is not known where it is not installed.
    with suppress(LongshoreError):
        if lost := opened.find_lost_lives():
            yield lost


def _has_engine(opened: OpenRun) -> bool:
    try:
        return opened.is_alive() is not False
    except LongshoreError:
        # Its service is not installed here.
        return False


def _is_over(run: RunPaths) -> bool:
    try:
        return is_sealed(run, measure_lives(run.journal))
    except (OSError, RunUnreadableError):
        return False


def _is_of_earlier_boot(run: RunPaths, path: Path) -> bool:
    """Whether a path is a keeper's or guard's record of a life before this machine booted."""
    life = path.name.partition(".")[0]
    return path.parent == run.keeper and life.isdecimal() and not is_of_this_boot(run, int(life))


def _note_cut(result: VerifyResult) -> None:
    """Note a journal that ends before the newest snapshot: as after a crash, but a run that was over lost its end."""
    run = result.opened.run
    snapshot = read_snapshot(run)
    if snapshot is None or any(damage.path.startswith(str(run.journal)) for damage in result.damages):
        return
    # The first event has the number 0.
    number = result.events.get(snapshot.life, 1) - 1
    if number >= snapshot.n:
        return
    what = f"ends with event {number}, and '{run.status.name}' knows event {snapshot.n}"
    if snapshot.finished:
        path = str(life_path(run.journal, snapshot.life))
        result.damages.append(Damage(path=path, what=f"it {what}, with which the run was over", unknown=LATER_UNKNOWN))
        return
    result.notes.append(
        f"the journal of life {snapshot.life} {what}: its end was lost in a crash, or cut off; 'resume' asks the "
        "keeper and the workload manager"
    )


def _damage_of(error: OSError | RunUnreadableError, path: Path) -> Damage:
    if isinstance(error, OSError):
        place = str(path if error.filename is None else error.filename)
        return Damage(path=place, what=f"it cannot be read: {error.strerror}", unknown=_EVENTS_UNKNOWN)
    return error.damage if isinstance(error, DamagedError) else Damage(path=str(path), what=_without_path(error))


def _without_path(error: RunUnreadableError) -> str:
    """Return the message of an error as a sentence about a file that was named before."""
    quoted, _, rest = error.message.partition("' ")
    return f"it {rest}" if quoted.startswith("'") and rest else error.message
