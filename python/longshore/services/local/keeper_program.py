"""Encoding of the keeper's commands, and the prefix of temporary folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import cast

from longshore.engine.keeper.protocol import Order
from longshore.engine.keeper_io.member_orders import encode_order


def temporary_prefix() -> str:
    """Return the prefix of all of this user's temporary folders."""
    return f"longshore-{os.getuid()}-"


def encode_command(order: Order) -> bytes:
    """Encode a command for the keeper as a line."""
    return encode_order(cast("Mapping[str, object]", order)) + b"\n"
