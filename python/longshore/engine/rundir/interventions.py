"""Orders to the engine of a run: files that any process of the user may leave, taken in the order of their names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.world.files.atomic import move, write_atomically

_SUFFIX: Final = ".json"
Act = Literal["cancel", "pause", "unpause", "throttle", "hold", "release", "set", "restart"]
"""What can be ordered."""


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to do; nothing selected means the whole run."""

    who: str
    act: Act
    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    from_labels: tuple[str, ...] = ()
    """Of a restart: the labels that run again even if they succeeded."""


def leave(run: RunPaths, order: Order) -> Path:
    """Leave an order, whole or not at all, and return where it lies until it is taken.

    Raises
    ------
    SubmissionRefusedError
        The run directory is somebody else's, or its disk is full.
    """
    try:
        run.steer.mkdir(exist_ok=True)
        path = run.steer / f"{_next_number(run):020}-{os.getpid()}{_SUFFIX}"
        write_atomically(path, msgspec.json.encode(order))
    except OSError as error:
        raise SubmissionRefusedError(
            f"no order can be left in '{run.root}': {error.strerror}", hint="Only who may write a run can steer it."
        ) from error
    return path


def _next_number(run: RunPaths) -> int:
    """A number above those of all orders that lie there, even where the clock was set back in between."""
    newest = max((name.partition("-")[0] for name in os.listdir(run.steer)), default="")
    return max(time.time_ns(), int(newest) + 1 if newest.isdigit() else 0)


def discard(run: RunPaths) -> None:
    """Take all orders back that nobody has taken."""
    for path, _ in waiting(run):
        path.unlink(missing_ok=True)


def waiting(run: RunPaths) -> list[tuple[Path, Order]]:
    """The orders nobody has taken yet, oldest first. One that cannot be read is set aside, not obeyed."""
    try:
        names = sorted(name for name in os.listdir(run.steer) if name.endswith(_SUFFIX))
    except OSError:
        # There is no folder yet, or it cannot be read for now: what lies in it is taken when it can.
        return []
    orders = []
    for name in names:
        path = run.steer / name
        try:
            orders.append((path, msgspec.json.decode(path.read_bytes(), type=Order)))
        except OSError:
            # Another engine has taken the run up, and this order with it; or it cannot be read for now.
            continue
        except (msgspec.MsgspecError, UnicodeDecodeError):
            with suppress(OSError):
                move(path, path.with_suffix(".unreadable"))
    return orders
