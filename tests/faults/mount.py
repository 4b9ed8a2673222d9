"""Mount of a network file system that shows files late, and sometimes does not answer, as `mount.c` makes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.shim import build_shim

SOURCE: Final = Path(__file__).with_name("mount.c")


class Mount(NamedTuple):
    """A mount as the processes of one host see it, which get its `variables`."""

    folder: Path
    """Files below it lie on the mount."""
    gate: Path
    """While this file exists, the server does not answer."""
    late_s: float = 0.0
    """Seconds after which the host sees what others write."""
    part: str = ""
    """Text in the paths of the files on it; all below the folder by default."""
    error: int = 0
    """Error of calls while the server does not answer; 0 lets them hang."""

    def variables(self) -> dict[str, str]:
        """Return the variables that put processes on the host."""
        return {
            "LD_PRELOAD": str(build_shim(SOURCE)),
            "MOUNT_FOLDER": str(self.folder),
            "MOUNT_GATE": str(self.gate),
            "MOUNT_LATE_S": str(self.late_s),
            "MOUNT_ERROR": str(self.error),
            "MOUNT_PART": self.part,
        }

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Cut the host off from the server while the body runs."""
        self.gate.touch()
        try:
            yield
        finally:
            self.gate.unlink()
