"""Replacement of the calls of a door, an object such as `longshore.system.files.files`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replace_calls(door: object, other: object) -> Iterator[None]:
    """Replace the calls of a door by those that `other` has, for all of this process while the body runs."""
    before = dict(vars(door))
    names = {name for name in (*vars(type(door)), *before) if not name.startswith("_")}
    vars(door).update({name: getattr(other, name) for name in names if hasattr(other, name)})
    try:
        yield
    finally:
        vars(door).clear()
        vars(door).update(before)
