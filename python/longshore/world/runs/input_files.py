"""Records the state of input files in a run directory, and reads it."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import file_digest
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.run.input_files import INPUT_FILES_FORMAT, InputFile, InputFiles
from longshore.world.files.atomic import create_file
from longshore.world.files.read_file import open_stream, read_file

INPUT_FILES: Final = "input-files.json"


def look_at_inputs(paths: Iterable[str], *, with_content: bool = False) -> dict[str, InputFile]:
    """Return the state of each file that is there; `with_content` reads it whole for its hash."""
    found: dict[str, InputFile] = {}
    for path in paths:
        try:
            status = Path(path).stat()
            digest = ""
            if with_content:
                with open_stream(path) as file:
                    digest = file_digest(file, "sha256").hexdigest()
        except OSError:
            continue
        found[path] = InputFile(status.st_size, status.st_mtime_ns, digest)
    return found


def write_input_files(draft: RunPaths, found: dict[str, InputFile]) -> None:
    """Write the record into the folder of a submission."""
    text = msgspec.json.encode(InputFiles(files=found)) + b"\n"
    create_file(draft.root / INPUT_FILES, [text], below=draft.root)


def read_input_files(submission: RunPaths) -> InputFiles:
    """Read the record of a submission; empty where an older Longshore wrote none, or it cannot be read."""
    try:
        record = msgspec.json.decode(read_file(submission.root / INPUT_FILES), type=InputFiles)
    except (OSError, *DECODE_ERRORS):
        return InputFiles()
    return record if record.v <= INPUT_FILES_FORMAT else InputFiles()
