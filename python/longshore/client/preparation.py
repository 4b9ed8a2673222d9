"""A prepared run: what its stages made, and its run directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from longshore.app.submit.stage_results import StageResult

if TYPE_CHECKING:
    from longshore.model.run.report import TextPrinter


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared run. ``print`` and notebooks show what ``longshore prepare`` prints.

    Attributes
    ----------
    path
        The run directory, which `longshore.submit` takes.
    stages
        What each stage made, with counts, time and memory.
    """

    path: Path
    stages: tuple[StageResult, ...]

    @property
    def jobs(self) -> Mapping[str, int]:
        """Number of jobs per label."""
        return self.stages[-1].labels

    def __str__(self) -> str:
        """Return a line per stage and label, and the run directory."""
        labels = (f"  {name}: {count}" for name, count in self.jobs.items())
        return "\n".join([*(stage.describe() for stage in self.stages), *labels, f"Submit dir: {self.path}"])

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(str(self))
