"""How Python gets a run: functions that prepare one, submit one, open one and list runs, as the commands do."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from longshore.client.run import PrintedReport, Run
from longshore.config.layers import Overrides
from longshore.errors import RunNotMeantError, UsageError
from longshore.model.report import RunReport, TextPrinter
from longshore.model.submission import SubmissionChecks
from longshore.model.values import YamlValue
from longshore.plan.stages import Stage, StageResult, run_stages
from longshore.plan.submission import submit as submit_run
from longshore.progress import QuietProgress
from longshore.reports.run_list import RunQuery, list_runs
from longshore.runstate.open_run import open_run


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


def submit(
    path: str | Path,
    *,
    set: Mapping[str, YamlValue] | None = None,  # noqa: A002 - the name of the option
    site: str | None = None,
    service: str | None = None,
    strict: bool = False,
    probe: bool = True,
    share_outputs: bool = False,
    progress: bool = False,
) -> Run:
    """Submit a run, as ``longshore submit`` does.

    Parameters
    ----------
    path
        A configuration file, or a run directory that ``longshore prepare`` made.
    set
        Values with priority over the file, by key; a key with dots names a place, such as ``site.campus.queue``.
    site, service
        Site and workload manager, instead of those of the file.
    strict
        Refuse a configuration with warnings.
    probe
        Ask the workload manager first; a run that it does not take is refused.
    share_outputs
        Let the run write files that a live run writes too.
    progress
        Print notes and stages to standard error.

    Returns
    -------
    Run
        The submitted run; it goes on without this process.

    Raises
    ------
    LongshoreError
        The run cannot be prepared, or is refused; nothing is left behind.

    Examples
    --------
    >>> run = longshore.submit("survey.yaml", set={"requestMemory": "2 GiB"})
    >>> run.wait(progress=True)
    <JobState.SUCCEEDED: 'SUCCEEDED'>
    """
    submitted = submit_run(
        Path(path),
        _overrides(set, site, service),
        checks=SubmissionChecks(strict=strict, with_probe=probe, shares_outputs=share_outputs),
        progress=_TerminalProgress() if progress else QuietProgress(),
    )
    return Run(open_run(str(submitted.run.root)), notes=submitted.notes)


def prepare(
    path: str | Path,
    *,
    set: Mapping[str, YamlValue] | None = None,  # noqa: A002 - the name of the option
    site: str | None = None,
    service: str | None = None,
    progress: bool = False,
) -> Preparation:
    """Write the run directory of a configuration, for inspection, as ``longshore prepare`` does; no job runs.

    Parameters
    ----------
    path
        A configuration file.
    set, site, service, progress
        As for `submit`.

    Returns
    -------
    Preparation
        What the stages made; `submit` takes its `path`.

    Raises
    ------
    LongshoreError
        The run cannot be prepared; nothing is left behind.

    Examples
    --------
    >>> prepared = longshore.prepare("survey.yaml")
    >>> print(prepared)
    >>> run = longshore.submit(prepared.path)
    """
    shown = _TerminalProgress() if progress else QuietProgress()
    stages, folder = run_stages(Path(path), Stage.PREPARE, _overrides(set, site, service), progress=shown)
    assert folder is not None  # The last stage writes it.
    return Preparation(path=folder, stages=tuple(stages))


def open(reference: str | Path) -> Run:  # noqa: A001 - what a user looks for in this module
    """Open a run: by its id, the beginning of its id, its directory, or ``@last``.

    If ``@last`` is a run that was submitted neither from this directory nor from a parent of it, or is older than a
    submit from here that was refused, it can only be looked at.

    Raises
    ------
    RunNotFoundError
        There is no such run.
    """
    try:
        return Run(open_run(str(reference), acts=True))
    except RunNotMeantError as doubt:
        return Run(open_run(str(reference)), doubt=doubt)


def runs(
    *, days: float | None = None, user: str | None = None, filters: Sequence[str] = (), service: str | None = None
) -> list[RunReport]:
    """List runs as ``longshore report`` does: live ones, or the last few if all are over.

    Parameters
    ----------
    days
        Also runs that ended in the last so many days.
    user
        Only runs of this user.
    filters
        Conditions such as ``state=FAILED`` or ``payload~^survey``. A run must meet all of them, and may be over.
    service
        Also ask this workload manager for runs of other hosts.

    Raises
    ------
    UsageError
        A filter is wrong.
    """
    query = RunQuery(days=days, user=user, filters=tuple(filters), service=service)
    return [PrintedReport.of(report) for report in list_runs(query, now=time.time()).reports]


class _TerminalProgress:
    """Prints notes and stages of a submission on standard error."""

    def note(self, text: str) -> None:
        """Print a note for the user."""
        print(f"longshore: {text}", file=sys.stderr)  # noqa: T201 - what the caller asked for

    def stage(self, text: str) -> None:
        """Print the start of a stage."""
        print(f"longshore: {text}", file=sys.stderr)  # noqa: T201 - what the caller asked for


def _overrides(
    set: Mapping[str, YamlValue] | None,  # noqa: A002 - the name of the option
    site: str | None,
    service: str | None,
) -> Overrides | None:
    options = {key: value for key, value in (("computeSite", site), ("wmsServiceClass", service)) if value is not None}
    return Overrides(options, tuple(map(_pair, (set or {}).items()))) or None


def _pair(item: tuple[str, YamlValue]) -> str:
    """Return a value as ``--set`` takes it."""
    key, value = item
    if "=" in key:
        raise UsageError(f"'{key}' is no key of a configuration: it has an equals sign")
    if value == "":
        return f"{key}="
    # Quotes keep a word such as "yes" a word; a document of one scalar ends in three dots.
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True)
    bare = text.rstrip().removesuffix("...").rstrip()
    return f"{key}={bare}"
