"""Table of files that ``longshore-stage`` copies; apart because that program reads its format, a line per file."""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterable, Iterator
from typing import Final

import msgspec

from longshore.errors import PreparationError
from longshore.model.tasks import is_pattern, is_remote
from longshore.model.workflow import JobSettings, StagingRules

OUTSIDE: Final = "root"
"""Directory, in the scratch directory, of files outside of the run directory."""
REMOTE: Final = "urls"
"""Directory, in the scratch directory, of files at URLs."""
_NO_RULES: Final = StagingRules()


class ScratchLayout(msgspec.Struct, frozen=True):
    """Where the files of jobs lie below their scratch directories.

    Files of the run directory keep their relative paths, as do those of the working directory, so that commands may
    name these.

    Attributes
    ----------
    root
        The run directory; empty if it is not known yet, and no file lies there.
    folder
        Working directory of the jobs; empty for the run directory.
    schemes
        Schemes of URLs that are staged.
    """

    root: str
    folder: str = ""
    schemes: Container[str] = ()

    @classmethod
    def of(cls, settings: JobSettings, root: str) -> ScratchLayout:
        """Return the layout for jobs with these settings."""
        rules = settings.rules.staging or StagingRules()
        return cls(root, settings.working_directory or "", rules.urls)

    def absolute(self, path: str) -> str:
        """Return the absolute path of a file; a URL stays as it is."""
        return path if is_remote(path) else posixpath.normpath(posixpath.join(self.root, path))

    def place(self, path: str) -> str:
        """Return the path of a file relative to the scratch directory; a URL that is not staged stays as it is."""
        if is_remote(path):
            scheme, _, rest = path.partition("://")
            return f"{REMOTE}/{scheme}{posixpath.normpath(f'/{rest}')}" if scheme in self.schemes else path
        whole = self.absolute(path)
        for folder in (self.root, self.folder):
            inside = whole.removeprefix(f"{folder.rstrip('/')}/") if folder else whole
            if inside != whole or not whole.startswith("/"):
                return inside
        return f"{OUTSIDE}/{whole.lstrip('/')}"


def stage_table(
    inputs: Iterable[str], outputs: Iterable[str], layout: ScratchLayout, rules: StagingRules = _NO_RULES
) -> str:
    """Return the table of a job, whose inputs and outputs are paths; URLs without a command are left out.

    Raises
    ------
    PreparationError
        Two files would have one path in the scratch directory.
    """
    lines: list[str] = []
    sources: dict[str, str] = {}
    transfer = ""
    for side, paths in (("i", inputs), ("o", outputs)):
        for path, there in _staged(paths, layout):
            if sources.setdefault(there, path) != path:
                raise PreparationError(
                    f"'{path}' and '{sources[there]}' would both be '{there}' in the scratch directory",
                    hint="Give one of them another name.",
                )
            wanted = _transfer_line(path, side, rules)
            if wanted != transfer:
                lines.append(_line("t", wanted))
                transfer = wanted
            lines.append(_file_line(side, path, there))
    return "".join(lines)


def staged_outputs(outputs: Iterable[str], layout: ScratchLayout) -> list[str]:
    """Return the absolute paths, or URLs, of the outputs of a table, in its order."""
    return [path for path, _ in _staged(outputs, layout)]


def _staged(paths: Iterable[str], layout: ScratchLayout) -> Iterator[tuple[str, str]]:
    """Yield the absolute path or the URL of each staged file, and its path in the scratch directory."""
    found = {
        layout.absolute(path): layout.place(path)
        for path in paths
        if not is_remote(path) or path.partition("://")[0] in layout.schemes
    }
    # Files of one directory follow each other: they are copied by one program. URLs come last.
    return iter(sorted(found.items(), key=lambda pair: (is_remote(pair[0]), posixpath.split(pair[0]))))


def _transfer_line(path: str, side: str, rules: StagingRules) -> str:
    if is_remote(path):
        return rules.urls[path.partition("://")[0]]
    return rules.fetch if side == "i" else rules.send


def _file_line(side: str, path: str, there: str) -> str:
    if side == "i":
        return _line("m", path, posixpath.dirname(there)) if is_pattern(path) else _line("i", path, there)
    if is_remote(path):
        return _line("u", there, path)
    return _line("p", there, posixpath.dirname(path)) if is_pattern(path) else _line("o", there, path)


def _line(*fields: str) -> str:
    return "\t".join(map(_escape, fields)) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
