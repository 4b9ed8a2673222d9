"""Secrets that a configuration holds as literal values, and which texts and files hold one, which stay private."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

import msgspec

from longshore.config.hidden_secrets import note_secrets
from longshore.config.merge import PACKAGED_LAYERS, Layer, LayerRank
from longshore.config.secrets import literal_secrets, may_have_secrets, secret_variables
from longshore.config.yaml_text import read_document
from longshore.contract.service import RunPaths
from longshore.errors import ConfigError
from longshore.system.reading import read_file
from longshore.system.room import make_private, restrict_folder

_PART = re.compile(rb"[A-Za-z0-9]+")


class SecretValues(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of each secret, which are its runs of letters and digits.

    Quoting changes only what is between them. `in_options` says that an option of the command line has a secret.
    """

    parts: frozenset[frozenset[bytes]] = frozenset()
    in_options: bool = False

    def __bool__(self) -> bool:
        return bool(self.parts)

    def may_be_in(self, text: bytes | mmap) -> bool:
        """Return whether a text has all parts of a secret."""
        return any(all(text.find(part) >= 0 for part in parts) for parts in self.parts)


def read_secrets(path: Path) -> tuple[str, ...]:
    """Return the secrets of the recorded configuration of a run, the longest first; none if it cannot be read."""
    try:
        text = read_file(path).decode("utf-8", "replace")
        root = read_document(text, str(path)).node if may_have_secrets(text) else None
    except (OSError, ConfigError):
        # A run of another tool has none, and others than its owner may not read it.
        return ()
    if root is None:
        return ()
    variables = (os.environ.get(name, "") for name in secret_variables(root))
    return tuple(sorted({*literal_secrets(root), *variables} - {""}, key=len, reverse=True))


def find_secret_values(layers: Iterable[Layer], env: Mapping[str, str]) -> SecretValues:
    """Return the secrets that users wrote, and the values of environment variables that may be filled in for them."""
    secrets: set[str] = set()
    in_options = False
    for layer in layers:
        secrets |= layer_secrets(layer, env)
        # A reference to one is recorded as it is.
        in_options |= layer.rank is LayerRank.COMMAND_LINE and any(literal_secrets(layer.root))
    parts = frozenset(frozenset(_PART.findall(secret.encode(errors="replace"))) for secret in secrets)
    return SecretValues(parts=parts, in_options=in_options)


def layer_secrets(layer: Layer, env: Mapping[str, str]) -> set[str]:
    """Return the secrets that users wrote in a layer, and those of the environment that it refers to."""
    if layer.rank.label in PACKAGED_LAYERS:
        return set()
    variables = (env.get(name) for name in secret_variables(layer.root))
    return {*literal_secrets(layer.root), *(value for value in variables if value)}


def note_layers(layers: Iterable[Layer], env: Mapping[str, str]) -> None:
    """Let messages of the use case mask the secrets of these layers."""
    note_secrets(lambda: chain.from_iterable(layer_secrets(layer, env) for layer in layers))


# Makes the files of a run that hold secrets readable by its owner only.


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
