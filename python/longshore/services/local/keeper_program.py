"""Encoding of the keeper's commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from longshore.engine.keeper.protocol import Order
from longshore.engine.keeper_io.member_orders import encode_order


def encode_command(order: Order) -> bytes:
    """Encode a command for the keeper as a line."""
    return encode_order(cast("Mapping[str, object]", order)) + b"\n"
