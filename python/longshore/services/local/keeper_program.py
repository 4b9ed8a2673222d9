"""Puts the keeper's program where it runs, words its orders, and says what the jobs of a run are known by."""

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
    """Copy a file, whole or not at all."""
    write_atomically(target, source.read_bytes())


def mark_of(run: RunPaths) -> str:
    """What is the run's own wherever its directory goes, where it has been given that."""
    try:
        return read_card(run).mark
    except RunNotFoundError:
        return str(run.root)


def temporary_prefix() -> str:
    """What the name of every temporary folder of this user's begins with."""
    return f"longshore-{os.getuid()}-"


def encoded(order: Order) -> bytes:
    """An order as the keeper reads it."""
    try:
        return _encode(order)
    except UnicodeEncodeError:
        # The environment, and what a job takes from it, may hold bytes that are no text.
        return json.dumps(order).encode()


_encode = msgspec.json.Encoder().encode
