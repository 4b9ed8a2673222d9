"""Checks of single records of a run directory: documents, files of lines and end records, and which ones count."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import ACCEPT_LOSS
from longshore.model.json_lines import (
    SEED,
    check_block,
    find_bad_lines,
    has_changed_end,
    has_checksum,
    have_checksums,
    is_intact,
)
from longshore.model.report import Damage
from longshore.rundir.batch_records import FENCE_MARKS, is_complete, life_of_tag, read_end_record
from longshore.rundir.journal import first_event, lives, read_end_seal
from longshore.system.host import boot_id, host_name
from longshore.system.reading import read_file

_UNKNOWN: Final = "what it recorded is not known"


def check_record(path: Path, content: bytes) -> tuple[bool, list[Damage]]:
    """Check a document of JSON; return whether it has a checksum, and its damage."""
    if has_checksum(content) or _had_checksum(content):
        # Several lines with checksums are no document.
        if is_intact(content) and _describe_error(content) is None:
            return True, []
        return True, [Damage(path=str(path), what="it does not fit its checksum", unknown=_UNKNOWN)]
    if (why := _describe_error(content)) is not None:
        return False, [Damage(path=str(path), what=f"it cannot be read: {why}", unknown=_UNKNOWN)]
    return False, []


def check_batch_record(path: Path, content: bytes) -> tuple[bool, list[Damage]]:
    """Check the record of a batch, which names its batch as ``tag``; return as `check_record` does."""
    has_own, damages = check_record(path, content)
    if not damages:
        record = msgspec.json.decode(content)
        if not isinstance(record, dict) or record.get("tag") != path.stem:
            damages = [Damage(path=str(path), what="it is not the record of this batch", unknown=_UNKNOWN)]
    return has_own, damages


def check_record_lines(path: Path, content: bytes) -> tuple[bool, list[Damage]]:
    """Check a file of lines of JSON; return whether they have checksums, and their damage.

    A last line without its end is not damage: its writer may be writing it, or died at it.
    """
    end = content.rfind(b"\n") + 1
    whole = content[:end]
    if have_checksums(content):
        what = "it is not as it was written, or lines before it are missing"
        intact = check_block(whole, SEED) is not None
        lines = [] if intact else [bad.line for bad in find_bad_lines(whole, SEED)]
        if has_changed_end(content[end:]):
            lines.append(whole.count(b"\n") + 1)
        return True, [Damage(path=str(path), line=line, what=what, unknown=_UNKNOWN) for line in lines]
    damages = []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        if (why := _describe_error(line)) is not None:
            damages.append(Damage(path=str(path), line=number, what=f"it cannot be read: {why}", unknown=_UNKNOWN))
    return False, damages


def end_record_paths(run: RunPaths) -> list[Path]:
    """Return the end records of batches' members, which are named by job and attempt."""
    return [path for path in sorted(run.ends.glob("*/*")) if path.name.replace(".", "", 1).isdecimal()]


def check_end_record(path: Path) -> list[Damage]:
    """Check the end record of a batch's member; return its damage."""
    if read_end_record(path) is not None or not path.exists():
        return []
    what = "it is not an end record of its job, or was changed"
    return [Damage(path=str(path), what=what, unknown="how the job ended is not known")]


def find_keeper_damages(run: RunPaths) -> tuple[Damage, ...]:
    """Return the damages of the keepers' records that a new engine relies on.

    There are none once the run is over, and none of lives before the newest acceptance of a loss. Records of an earlier
    boot of this machine are not told: they were not synced, and the engine takes what they lack as lost.
    """
    accepted = newest_acceptance(run)
    if accepted is None:
        return ()
    damages: list[Damage] = []
    checked_lives: dict[int, bool] = {}
    for path in sorted([*run.keeper.glob("*.jsonl"), *run.keeper.glob("*.guard")], reverse=True):
        name = path.name.partition(".")[0]
        if not name.isdecimal() or int(name) < accepted:
            continue
        life = int(name)
        if life not in checked_lives:
            checked_lives[life] = is_of_this_boot(run, life)
        if checked_lives[life]:
            damages += _check_file(path, lambda path, content: check_record_lines(path, content)[1])
    return tuple(sorted(damages, key=lambda damage: (damage.path, damage.line or 0)))


def find_batch_damages(run: RunPaths) -> tuple[Damage, ...]:
    """Return the damages of batch records and end records that a new engine relies on.

    There are none once the run is over, and none of lives before the newest acceptance of a loss.
    """
    if not (run.batches.is_dir() or run.ends.is_dir()) or (accepted := newest_acceptance(run)) is None:
        return ()
    damages: list[Damage] = []
    for path in sorted(run.batches.glob("*.json")):
        if (life_of_tag(path.stem) or 0) >= accepted:
            damages += _check_file(path, lambda path, text: check_batch_record(path, text)[1])
    for folder in _entries(run.ends, damages):
        # Of a mark, only its name counts.
        if folder.name != FENCE_MARKS and (life_of_tag(folder.name) or 0) >= accepted:
            entries = _entries(folder, damages)
            names = {path.name for path in entries}
            for path in entries:
                if is_complete(path.name, names):
                    damages += _check_file(path, lambda path, _: check_end_record(path))
    return tuple(damages)


def _entries(folder: Path, damages: list[Damage]) -> list[Path]:
    """Return the entries of a folder; one that cannot be read is a damage."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        damages.append(Damage(path=str(folder), what=f"it cannot be read: {error.strerror}", unknown=_UNKNOWN))
        return []


def _check_file(path: Path, check: Callable[[Path, bytes], list[Damage]]) -> list[Damage]:
    """Check a file that may go meanwhile."""
    try:
        return check(path, read_file(path))
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Damage(path=str(path), what=f"it cannot be read: {error.strerror}", unknown=_UNKNOWN)]


def newest_acceptance(run: RunPaths) -> int | None:
    """Return the newest life that accepts a loss, or 0; ``None`` once the run is over, when no records count."""
    numbered = lives(run.journal)
    newest = max((life for life, _ in numbered), default=0)
    # Damage of the journal is told for itself.
    with suppress(RunUnreadableError):
        seal = read_end_seal(run.journal)
        if seal is not None and seal.life == newest:
            return None
    for life, path in sorted(numbered, reverse=True):
        with suppress(RunUnreadableError):
            if first_event(path).by == ACCEPT_LOSS:
                return life
    return 0


def is_of_this_boot(run: RunPaths, life: int) -> bool:
    """Whether a life began on another host or since this one booted, or is not known.

    Keepers do not sync their records: of those of an earlier boot, what is damaged counts as lost with the machine.
    """
    path = dict(lives(run.journal)).get(life)
    try:
        own = first_event(path) if path else None
    except (RunUnreadableError, OSError):
        return True
    return own is None or own.host != host_name() or own.boot == boot_id()


def _had_checksum(content: bytes) -> bool:
    """Whether the last member of a document is what damage left of its checksum."""
    try:
        name, value = [*msgspec.json.decode(content, type=dict[str, Any]).items()][-1]
    except (IndexError, *DECODE_ERRORS):
        return False
    # One byte is another one, missing or too much.
    return (len(name) < 2 or (len(name) == 2 and "c" in name)) and isinstance(value, str) and 7 <= len(value) <= 9


def _describe_error(text: bytes) -> str | None:
    """Return why a text is no JSON; ``None`` if it is."""
    try:
        # As a whole: what is passed over is not checked.
        msgspec.json.decode(text)
    except DECODE_ERRORS as error:
        return str(error)
    return None
