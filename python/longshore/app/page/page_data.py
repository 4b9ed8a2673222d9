"""Data of the page of a run: a report, and what figures and tables show beside it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import msgspec

from longshore.app.statistics.attempt_statistics import AttemptStatistics
from longshore.model.run.picture import Drawing
from longshore.model.run.report import JobReport, RunReport
from longshore.model.run.states import JobState


class LabelRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a label.

    Attributes
    ----------
    counts
        Number of jobs per state.
    statistics
        Statistics of its attempts; without any, nothing is known of single attempts.
    run_s, memory_b
        Known run times and peak memory of attempts that succeeded, ascending.
    requested_memory_b
        Largest memory that first attempts request, or all attempts where single ones are unknown; ``None`` if unknown.
    """

    name: str
    expected: int
    counts: Mapping[JobState, int]
    statistics: AttemptStatistics = AttemptStatistics()
    run_s: Sequence[float] = ()
    memory_b: Sequence[float] = ()
    requested_memory_b: int | None = None


class Spans(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts in time, as columns.

    One that runs ends at the time of the report; one whose end is unknown ends at the last event of its run.
    """

    started: array[float]
    ended: array[float]
    label_of: array[int]
    host_of: array[int]
    job_of: array[int]
    outcome: bytearray
    """`RUNNING`, `SUCCEEDED`, `FAILED` or `UNKNOWN` per attempt."""
    hosts: list[str]

    def __len__(self) -> int:
        return len(self.started)


RUNNING, SUCCEEDED, FAILED, UNKNOWN = range(4)
"""Outcomes of an attempt."""


class ConfigurationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the configuration, and where it was written."""

    key: str
    value: str
    place: str
    """File, line and column; empty if unknown."""
    layer: str
    is_own: bool
    """Whether a user wrote it, rather than a package."""


class RerunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and what it does."""

    purpose: str
    command: str


class PageAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the configuration that would help.

    `why` has the figures. `yaml` are lines of configuration; empty if the payload must be changed instead.
    """

    label: str
    text: str
    why: str
    yaml: str = ""


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of a run.

    Attributes
    ----------
    as_of
        Time of the report, in seconds since the epoch.
    notes
        What the page lacks, a sentence each.
    jobs
        All jobs; ``None`` where they are too many for a table.
    """

    report: RunReport
    as_of: float
    version: str
    total: AttemptStatistics = AttemptStatistics()
    labels: tuple[LabelRow, ...] = ()
    hosts: Mapping[str | None, AttemptStatistics] = msgspec.field(default_factory=dict)
    spans: Spans | None = None
    names: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Names of the jobs of spans, where these are shown one by one."""
    drawing: Drawing | None = None
    jobs: tuple[JobReport, ...] | None = None
    configuration: tuple[ConfigurationRow, ...] = ()
    commands: tuple[RerunCommand, ...] = ()
    advice: tuple[PageAdvice, ...] = ()
    notes: tuple[str, ...] = ()
