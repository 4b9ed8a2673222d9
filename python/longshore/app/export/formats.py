"""Formats of ``export``, and the content of a run in each."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final

from longshore.app.export.write_crate import CrateFiles, write_crate
from longshore.app.output_file import write_file
from longshore.app.runs.open_run import OpenRun
from longshore.errors import UsageError
from longshore.model.suggestions import name_all


class ExportFormat(StrEnum):
    """Format of an export."""

    CSV = "csv"
    """A table with a row per attempt."""
    OPENMETRICS = "openmetrics"
    """Metrics of the run at this moment, for Prometheus."""
    WFFORMAT = "wfformat"
    """The workflow and its execution, for tools of WfCommons, and as a payload."""
    RO_CRATE = "ro-crate"
    """What was run with which files, as a directory or an archive."""


_EXAMPLES: Final = {
    ExportFormat.CSV: "attempts.csv",
    ExportFormat.OPENMETRICS: "longshore.prom",
    ExportFormat.WFFORMAT: "workflow.json",
    ExportFormat.RO_CRATE: "run.crate.zip",
}
"""Name of a file per format."""


def _find_format(name: str) -> ExportFormat:
    """Return the format of a name, or raise `UsageError`."""
    try:
        return ExportFormat(name)
    except ValueError:
        raise UsageError(f"there is no export format '{name}'", hint=name_all(ExportFormat)) from None


def export_run(opened: OpenRun, form: str, path: Path) -> None:
    """Write a run to a file in a format; a crate is a new directory, or an archive (``.zip``).

    See `render_run`, `write_file` and `write_crate` for the errors.
    """
    found = _find_format(form)
    if found is ExportFormat.RO_CRATE:
        write_crate(path, _crate_files(opened))
        return
    write_file(path, render_run(opened, found), example=_EXAMPLES[found], to_stdout="--output -")


def render_run(opened: OpenRun, form: str) -> Iterable[bytes]:
    """Return the content of a run in a format, in parts; the run is read before the first one is returned.

    Raises
    ------
    RunUnreadableError
        The run directory is damaged beyond its journal, or cannot be read.
    UnreachableError
        The workload manager does not answer.
    UsageError
        There is no such format, or it has several files.
    """
    match _find_format(form):
        case ExportFormat.CSV:
            from longshore.app.export.attempts_csv import render_attempts
            from longshore.app.export.collect import attempt_rows
            from longshore.app.statistics.run_attempts import read_attempts

            return render_attempts(opened.card.id, attempt_rows(read_attempts(opened)))
        case ExportFormat.OPENMETRICS:
            from longshore.app.export.collect import collect_metrics
            from longshore.app.export.openmetrics import render_openmetrics

            return (render_openmetrics(*collect_metrics(opened)).encode(),)
        case ExportFormat.WFFORMAT:
            from longshore.app.export.collect import collect_trace
            from longshore.app.export.wfformat import render_wfformat

            return (render_wfformat(collect_trace(opened)).encode(),)
        case ExportFormat.RO_CRATE:
            raise UsageError(
                f"the format '{form}' has several files, and cannot be printed",
                hint="Name a directory or an archive: --output run.crate.zip",
            )


def _crate_files(opened: OpenRun) -> CrateFiles:
    from longshore.app.export.attempts_csv import render_attempts
    from longshore.app.export.collect import collect_crate
    from longshore.app.export.ro_crate import ATTEMPTS, METADATA, WORKFLOW, render_metadata
    from longshore.app.export.wfformat import render_wfformat

    run, rows = collect_crate(opened)
    return {
        METADATA: (render_metadata(run).encode(),),
        ATTEMPTS: render_attempts(opened.card.id, rows),
        WORKFLOW: (render_wfformat(run.trace).encode(),),
    }
