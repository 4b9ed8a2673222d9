"""Checks of single records of a run directory: documents and files of lines, with or without checksums."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.engine.journal.chain import first_event, lives, read_end_seal
from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.lines.checked_document import is_intact
from longshore.model.lines.checksum import SEED, check_block, find_bad_lines, has_checksum
from longshore.model.run.damage import Damage
from longshore.world.files.read_file import read_file
from longshore.world.host import boot_id, host_name

ACCEPT_LOSS: Final = "accept-loss"
"""What begins a life that only records the acceptance of a loss."""
_CHECKSUM_MARK: Final = b',"c":"'
_UNKNOWN: Final = "what it recorded is not known"


def check_record(path: Path, content: bytes) -> tuple[bool, list[Damage]]:
    """Check a document of JSON; return whether it has a checksum, and its damage."""
    if has_checksum(content):
        if is_intact(content):
            return True, []
        return True, [Damage(path=str(path), what="it does not fit its checksum", unknown=_UNKNOWN)]
    if (why := _describe_error(content)) is not None:
        return False, [Damage(path=str(path), what=f"it cannot be read: {why}", unknown=_UNKNOWN)]
    return False, []


def check_record_lines(path: Path, content: bytes) -> tuple[bool, list[Damage]]:
    """Check a file of lines of JSON; return whether they have checksums, and their damage.

    A last line without its end is not damage: its writer may be writing it, or died at it.
    """
    whole = content[: content.rfind(b"\n") + 1]
    # Any line tells, for damage can take away that of the first.
    if _CHECKSUM_MARK in whole:
        what = "it is not as it was written, or lines before it are missing"
        intact = check_block(whole, SEED) is not None
        lines = [] if intact else [bad.line for bad in find_bad_lines(whole, SEED)]
        # A line that its writer did not finish has no more bytes than a whole one.
        if has_checksum(content[len(whole) : -1] + b"\n"):
            lines.append(whole.count(b"\n") + 1)
        return True, [Damage(path=str(path), line=line, what=what, unknown=_UNKNOWN) for line in lines]
    damages = []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        if (why := _describe_error(line)) is not None:
            damages.append(Damage(path=str(path), line=number, what=f"it cannot be read: {why}", unknown=_UNKNOWN))
    return False, damages


def find_keeper_damages(run: RunPaths) -> tuple[Damage, ...]:
    """Return the damages of the keepers' records that a new engine relies on.

    There are none once the run is over, and none of lives before the newest acceptance of a loss. Records of an earlier
    boot of this machine are not told: they were not synced, and the engine takes what they lack as lost.
    """
    newest = max((life for life, _ in lives(run.journal)), default=0)
    damages: list[Damage] = []
    checked_lives: dict[int, bool] = {}
    for path in sorted([*run.keeper.glob("*.jsonl"), *run.keeper.glob("*.guard")], reverse=True):
        name = path.name.partition(".")[0]
        if not name.isdecimal():
            continue
        life = int(name)
        if life not in checked_lives:
            checked_lives[life] = _relies_on_keeper(run, life, newest)
        if checked_lives[life]:
            with suppress(FileNotFoundError):
                damages += check_record_lines(path, read_file(path))[1]
    return tuple(sorted(damages, key=lambda damage: (damage.path, damage.line or 0)))


def _relies_on_keeper(run: RunPaths, life: int, newest: int) -> bool:
    """Whether a new engine would rely on the records of the keepers of a life."""
    try:
        seal = read_end_seal(run.journal)
        if seal is not None and seal.life == newest:
            return False
        events = {number: first_event(path) for number, path in lives(run.journal) if number >= life}
    except RunUnreadableError:
        # Damage of the journal is told for itself.
        return True
    if any(number > life and event.by == ACCEPT_LOSS for number, event in events.items()):
        return False
    own = events.get(life)
    return own is None or own.host != host_name() or own.boot == boot_id()


def _describe_error(text: bytes) -> str | None:
    """Return why a text is no JSON; ``None`` if it is."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except DECODE_ERRORS as error:
        return str(error)
    return None
