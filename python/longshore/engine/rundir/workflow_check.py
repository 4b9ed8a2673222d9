"""Check of a workflow file against its manifest, so that a changed command is never started, and no reader shows it.

The whole file is hashed while it is read. Later, each record that is read again must still have the checksum that it
had then: a file may change while its engine runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final
from zlib import crc32

from longshore.errors import RunUnreadableError
from longshore.model.submission import FileDigest
from longshore.rundir.submissions import refuse_other_workflow

_CHUNK_B: Final = 1 << 20


class WorkflowCheck:
    """Digest of a workflow file that is being read, and a checksum per job afterwards.

    Parameters
    ----------
    path
        The file, for messages.
    expected
        Its digest in the manifest.
    run
        How a command names the run.
    """

    def __init__(self, path: Path, expected: FileDigest, run: str) -> None:
        self._path = path
        self._run = run
        self._hint = (
            f"No job is started from it. 'longshore verify {run}' shows all that is damaged; restore it from a copy."
        )
        self._expected = expected
        self._digest = sha256()
        self._size = 0
        self._jobs = array("I")
        self._rest = 0
        """Checksum of what follows the jobs."""

    def add_header(self, line: bytes) -> None:
        """Add the first line."""
        self._add(line)

    def add_jobs(self, lines: Iterable[bytes], text: bytes) -> None:
        """Add the lines of some jobs, and the same as one text."""
        self._jobs.extend(map(crc32, lines))
        self._add(text)

    def add_rest(self, text: bytes) -> None:
        """Add a part of what follows the jobs."""
        self._rest = crc32(text, self._rest)
        self._add(text)

    def finish(self, file: BinaryIO) -> None:
        """Add the rest of the file.

        Raises
        ------
        RunUnreadableError
            The content is not the expected one.
        """
        while chunk := file.read(_CHUNK_B):
            self.add_rest(chunk)
        refuse_other_workflow(self._path, FileDigest(self._size, self._digest.hexdigest()), self._expected, self._run)

    def refuse_changed_job(self, job: int, line: bytes) -> None:
        """Check the line of a job that was read again.

        Raises
        ------
        RunUnreadableError
            It is not the line that was checked.
        """
        if crc32(line) != self._jobs[job]:
            raise RunUnreadableError(f"'{self._path}' changed after it was checked, in line {job + 2}", hint=self._hint)

    def refuse_changed_rest(self, text: bytes) -> None:
        """Check what follows the jobs, read again; raises `RunUnreadableError` as `refuse_changed_job`."""
        if crc32(text) != self._rest:
            raise RunUnreadableError(f"'{self._path}' changed after it was checked, behind its jobs", hint=self._hint)

    def _add(self, text: bytes) -> None:
        self._size += len(text)
        self._digest.update(text)
