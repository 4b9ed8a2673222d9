"""Makes the files of a run that hold secrets readable by its owner only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from longshore.app.configure.secret_values import SecretValues
from longshore.contract.service import RunPaths
from longshore.system.room import make_private, restrict_folder

_READ_WHOLE: Final = 1 << 16
"""Bytes up to which reading a file is faster than mapping it."""


@contextmanager
def keep_private(draft: RunPaths, secrets: SecretValues, *, more: Iterable[Path] = ()) -> Iterator[list[str]]:
    """Close the files of a draft that hold secrets when the body has written them, and list them.

    Until then nobody else may enter the draft. `more` are further files of the run, in another folder.
    """
    names: list[str] = []
    if not secrets:
        yield names
        return
    with restrict_folder(draft.root):
        yield names
        for path in sorted(_regular_files(draft.root)):
            is_private = secrets.in_options if path == draft.made_from else False
            if is_private or _holds_secret(path, secrets):
                make_private(path, below=draft.root)
                names.append(str(path.relative_to(draft.root)))
    for path in more:
        if path.is_file() and not path.is_symlink() and _holds_secret(path, secrets):
            make_private(path, below=path.parent)
            names.append(path.name)


def _regular_files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _holds_secret(path: Path, secrets: SecretValues) -> bool:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= _READ_WHOLE:
            return secrets.may_be_in(file.read())
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return secrets.may_be_in(content)
