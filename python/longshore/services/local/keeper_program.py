"""Encoding of the keeper's commands, the token of a run's processes, and the prefix of temporary folders."""

from __future__ import annotations

import json
import os

import msgspec

from longshore.contract.context import RunPaths
from longshore.engine.keeper.protocol import Order
from longshore.errors import RunNotFoundError
from longshore.world.runs.run_directory import read_card


def run_token(run: RunPaths) -> str:
    """Return the run token, which stays valid when its directory moves; without a card, its path."""
    try:
        return read_card(run).run_token
    except RunNotFoundError:
        return str(run.root)


def temporary_prefix() -> str:
    """Return the prefix of all of this user's temporary folders."""
    return f"longshore-{os.getuid()}-"


def encode_command(order: Order) -> bytes:
    """Encode a command for the keeper as a line."""
    try:
        text = msgspec.json.encode(order)
    except UnicodeEncodeError:
        # Environment variables may hold bytes that are not text.
        text = json.dumps(order).encode()
    return text + b"\n"
