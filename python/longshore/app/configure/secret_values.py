"""Secrets that a configuration holds as literal values, and which texts may hold one of them."""

from __future__ import annotations

import re
from mmap import mmap

import msgspec

from longshore.app.configure.configuration import Configuration
from longshore.config.lint.secrets import literal_secrets, secret_variables
from longshore.config.values.merge import PACKAGED_LAYERS, LayerRank

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


def find_secret_values(configuration: Configuration) -> SecretValues:
    """Return the secrets that users wrote, and the values of environment variables that may be filled in for them."""
    secrets: set[str] = set()
    in_options = False
    for layer in configuration.all_layers:
        if layer.rank.label in PACKAGED_LAYERS:
            continue
        found = set(literal_secrets(layer.root))
        in_options = in_options or (bool(found) and layer.rank is LayerRank.COMMAND_LINE)
        variables = (configuration.env.get(name) for name in secret_variables(layer.root))
        secrets |= found | {value for value in variables if value}
    parts = frozenset(frozenset(_PART.findall(secret.encode(errors="replace"))) for secret in secrets)
    return SecretValues(parts=parts, in_options=in_options)
