"""Types of arguments and options: paths that are not empty, and numbers by their usual words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import click


class NonEmptyPath(click.Path):
    """Path type that refuses an empty text, which would be the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty path."""
        if not value:
            self.fail("the name of the file is empty", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """Number in a range; refuses ``nan``."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse ``nan``, which every comparison lets pass."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return number


class WholeNumber(click.IntRange):
    """Whole number in a range."""

    name = "whole number"


OUTPUT_FILE: Final = NonEmptyPath(path_type=Path)
"""A file to write; ``-`` is the standard output."""
STDOUT: Final = Path("-")
