"""Builds preloaded libraries, and gives processes the variables that `shim.c` reads."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

import pytest

SOURCE: Final = Path(__file__).with_name("shim.c")
SHORT: Final = -1
"""Instead of an errno: half of the content is written."""


class CallClass(IntEnum):
    """Classes of calls that can fail, each with its own counter."""

    WRITE = 0
    SYNC = 1
    RENAME = 2
    OPEN = 3
    MKDIR = 4
    SPAWN = 5
    UNLINK = 6


class Fault(NamedTuple):
    """Failure of calls: the `number`-th of a class, and those after it until `times` have failed."""

    kind: CallClass
    number: int
    error: int
    times: int = 1
    where: str = ""
    """Part of the path; other calls are not counted."""


class Shim(NamedTuple):
    """Files of one recording: all lie outside of the folder that is recorded."""

    folder: Path
    """Calls on paths below it count."""
    place: Path
    """Folder of trace, counters and effects."""

    @property
    def trace(self) -> Path:
        """The records, one after the other."""
        return self.place / "trace"

    @property
    def counts(self) -> Path:
        """Counters of calls, one per class."""
        return self.place / "counts"

    @property
    def effects(self) -> Path:
        """What jobs say they did, one line per step."""
        return self.place / "effects"

    def variables(self, fault: Fault | None = None, *, boot_id: str = "") -> dict[str, str]:
        """Return the variables that put a process and its children under the library."""
        chosen = {
            "LD_PRELOAD": str(build_shim()),
            "FAULTS_FOLDER": str(self.folder),
            "FAULTS_TRACE": str(self.trace),
            "FAULTS_COUNTS": str(self.counts),
            "FAULTS_EFFECTS": str(self.effects),
        }
        if fault:
            chosen["FAULTS_PLAN"] = f"{fault.kind}:{fault.number}:{fault.error}:{fault.times}"
            chosen["FAULTS_WHERE"] = fault.where
        if boot_id:
            path = self.place / "boot_id"
            path.write_text(f"{boot_id}\n", "utf-8")
            chosen["FAULTS_BOOT"] = str(path)
        return chosen

    def read_counts(self) -> dict[CallClass, int]:
        """Return the number of calls of each class."""
        data = self.counts.read_bytes()
        return {kind: int.from_bytes(data[8 * kind : 8 * kind + 8], "little") for kind in CallClass}


def require_compiler() -> None:
    """Skip the test where no C compiler is installed; fail where everything is required."""
    if not shutil.which("cc"):
        message = "there is no C compiler 'cc'"
        if os.environ.get("LONGSHORE_POOLS") == "required":
            pytest.fail(message)
        pytest.skip(message)


def build_shim(source: Path = SOURCE) -> Path:
    """Compile a library once per user and version of its source; return its path."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"longshore-shim-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"'{folder}' belongs to somebody else")
    library = folder / f"{digest}.so"
    if not library.exists():
        draft = library.with_suffix(f".{os.getpid()}")
        command = ["cc", "-O1", "-Wall", "-fPIC", "-shared", "-o", str(draft), str(source), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        draft.replace(library)
    return library
