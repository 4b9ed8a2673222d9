"""Formats requests and amounts of resources as text."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.model.text_format import format_duration, format_size
from longshore.model.workflow.request import Request


def request_text(request: Request) -> str:
    """Format a request."""
    parts = [f"{request.cpus} cpu" + ("" if request.cpus == 1 else "s")]
    if request.memory_b is not None:
        parts.append(f"{format_size(request.memory_b)} of memory")
    if request.disk_b is not None:
        parts.append(f"{format_size(request.disk_b)} of disk")
    if request.walltime_s is not None:
        parts.append(f"{format_duration(request.walltime_s)} of wall time")
    return ", ".join([*parts, *(f"{amount} of {name}" for name, amount in request.resources.items())])


def retries_text(number: int, unless: Sequence[int]) -> str:
    """Format a number of retries, and the exit codes after which there is none."""
    text = {0: "none", 1: "1 after the first attempt"}.get(number, f"{number} after the first attempt")
    return f"{text}, but not after exit code {', '.join(map(str, unless))}" if unless and number else text


def amount_text(name: str, amount: int) -> str:
    """Format an amount of a resource: memory and disk are in bytes, all others are counts."""
    return format_size(amount) if name in {"memory", "disk"} else str(amount)
