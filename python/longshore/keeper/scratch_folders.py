"""Folders of attempts' temporary directories by keepers' records, because those that were killed leave them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS
from longshore.keeper.protocol import KeeperRecord
from longshore.model.json_lines import SEED, check_block, have_checksums
from longshore.system.host import host_name
from longshore.system.reading import open_stream

_MOST_B: Final = 64 * 1024
"""Bytes of a first record at most."""


def temporary_prefix() -> str:
    """Return the prefix of all of this user's temporary folders."""
    return f"longshore-{os.getuid()}-"


def local_folder(record: KeeperRecord) -> Path | None:
    """Return the folder of a keeper's temporary directories, if it is on this host and ours to change.

    Only names that we create count, because other users may be able to write the records.
    """
    folder = Path(record.tmp)
    return folder if record.host == host_name() and folder.name.startswith(temporary_prefix()) else None


def left_folders(run: RunPaths) -> Iterator[Path]:
    """Yield the folders on this host that keepers of a run made and did not remove, because they were killed.

    While the run is driven, these may be in use.
    """
    for path in sorted(run.keeper.glob("*.jsonl")):
        with suppress(OSError, *DECODE_ERRORS):
            record = _keeper_record(path)
            folder = local_folder(record) if record else None
            if folder is None:
                continue
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                yield folder


def _keeper_record(path: Path) -> KeeperRecord | None:
    """Return the record with which a keeper's file begins; ``None`` where it was never written, or is damaged."""
    with open_stream(path) as stream:
        line = stream.readline(_MOST_B)
    is_whole = line.endswith(b"\n") and (not have_checksums(line) or check_block(line, SEED) is not None)
    return msgspec.json.decode(line, type=KeeperRecord) if is_whole else None
