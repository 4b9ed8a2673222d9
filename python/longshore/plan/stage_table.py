"""Table of the files that ``longshore-stage`` copies to the scratch directory of a job, and publishes from it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from longshore.errors import PreparationError
from longshore.model.tasks.file import File, is_remote

OUTSIDE: Final = "root"
"""Directory, in the scratch directory, of files outside of the run directory."""


def scratch_path(path: str, root: str) -> str:
    """Return the path of a file relative to the scratch directory; a URL is no file, and stays as it is.

    Files of the run directory `root` keep their relative paths, so that commands may name these.
    """
    if is_remote(path):
        return path
    whole = posixpath.normpath(posixpath.join(root, path))
    inside = whole.removeprefix(f"{root.rstrip('/')}/")
    return inside if inside != whole else f"{OUTSIDE}/{whole.lstrip('/')}"


def stage_table(inputs: Iterable[str], outputs: Iterable[str], files: Mapping[str, File], root: str) -> str:
    """Return the table of a job, whose inputs and outputs are names of files; URLs are left out.

    Raises
    ------
    PreparationError
        Two files would have one path in the scratch directory.
    """
    lines: dict[str, None] = {}
    sources: dict[str, str] = {}
    for side, names in (("i", inputs), ("o", outputs)):
        paths = (files[name].path for name in names if name in files)
        # Files of one directory follow each other: they are copied by one program.
        for path, there in sorted(_located(paths, root), key=lambda pair: posixpath.split(pair[0])):
            if sources.setdefault(there, path) != path:
                raise PreparationError(
                    f"'{path}' and '{sources[there]}' would both be '{there}' in the scratch directory",
                    hint=f"Give another name to the directory '{OUTSIDE}' of the run directory.",
                )
            words = (side, path, there) if side == "i" else (side, there, path)
            lines["\t".join(map(_field, words)) + "\n"] = None
    return "".join(lines)


def _located(paths: Iterable[str], root: str) -> Iterator[tuple[str, str]]:
    """Yield the absolute path of each file, and its path in the scratch directory."""
    for path in paths:
        if not is_remote(path):
            yield posixpath.normpath(posixpath.join(root, path)), scratch_path(path, root)


def _field(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
