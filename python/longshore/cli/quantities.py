"""Turns numbers of the kernel's into words for people: bytes and signals."""

from __future__ import annotations

import signal

_KIB = 1024


def size(amount: int) -> str:
    """Return a number of bytes in its largest unit, such as ``1.5 GiB``."""
    if amount < _KIB:
        return f"{amount} B"
    power = min((amount.bit_length() - 1) // 10, 5)
    return f"{amount / _KIB**power:.1f}".removesuffix(".0") + f" {'KMGTP'[power - 1]}iB"


def signal_name(number: int) -> str:
    """Return a signal by its name, or by its number where this host has none for it."""
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        # The job may have run on a host that has signals this one lacks.
        return f"signal {number}"
