"""Installation of the keeper's program in a run directory, encoding of its commands, and the run's run token."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from longshore.contract.context import RunPaths
from longshore.engine.keeper.protocol import Order
from longshore.errors import RunNotFoundError
from longshore.world.files.atomic import write_atomically
from longshore.world.runs.run_directory import read_card


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file atomically."""
    write_atomically(target, source.read_bytes())


def run_token(run: RunPaths) -> str:
    """Return the run token, which stays valid when its directory moves; without a card, its path."""
    try:
        return read_card(run).run_token
    except RunNotFoundError:
        return str(run.root)


def temporary_prefix() -> str:
    """Return the prefix of all of this user's temporary folders."""
    return f"longshore-{os.getuid()}-"


def encoded(order: Order) -> bytes:
    """Encode a command for the keeper."""
    try:
        return _encode(order)
    except UnicodeEncodeError:
        # Environment variables may hold bytes that are not text.
        return json.dumps(order).encode()


_encode = msgspec.json.Encoder().encode
