"""Report cache: stores the report of a run without further changes, valid until there is news."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore import __version__
from longshore.app.runs.open_run import OpenRun
from longshore.contract.capabilities import BriefEvents
from longshore.contract.context import Mark, Unreachable
from longshore.contract.service import StaleMarkError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.run.damage import DamagedError
from longshore.model.run.event import Life
from longshore.model.run.report import RunReport
from longshore.model.run.snapshot import Snapshot
from longshore.model.run.submission import RunIdentity
from longshore.model.workflow.collection_pause import collection_paused
from longshore.world.runs.run_directory import read_cached, write_cached

_FORMAT: Final = 7
_NAMES: Final = {False: "report.json", True: "details.json"}
"""Names of the cached report without single jobs, and with them."""


class CachedReport(msgspec.Struct, frozen=True, kw_only=True):
    """Cached report with its inputs: a change of any input invalidates it.

    `format` and `longshore` identify the writer. `mark` is the position in the events; `card`, `snapshot` and `life`
    (the newest engine) are the other inputs. `logs` has modification time and size of example logs, ``None`` for a
    missing log.
    """

    format: int = _FORMAT
    longshore: str = __version__
    mark: Mark
    card: RunIdentity
    snapshot: Snapshot | None
    logs: dict[str, tuple[int, int] | None]
    life: Life | None
    report: RunReport


def caches_details(opened: OpenRun) -> bool:
    """Return whether reports with single jobs are cached: where the service has a shorter form of its slow events."""
    return isinstance(opened.service, BriefEvents)


def read_cached_report(opened: OpenRun, snapshot: Snapshot | None, *, details: bool = False) -> CachedReport | None:
    """Return the cached report if all its inputs are unchanged; `snapshot` is the engine's newest.

    With `details`, it is the report with single jobs.
    """
    text = read_cached(opened.run, _NAMES[details])
    try:
        with collection_paused():
            cached = msgspec.json.decode(text, type=CachedReport) if text else None
    except DECODE_ERRORS:
        return None
    if cached is None or (cached.format, cached.longshore) != (_FORMAT, __version__):
        return None
    if (cached.report.path, cached.card, cached.snapshot) != (str(opened.directory), opened.card, snapshot):
        return None
    if not _is_newest(opened, cached.mark) or cached.logs != _log_stamps(cached.report):
        return None
    return cached


def cache_report(
    opened: OpenRun, snapshot: Snapshot | None, *, mark: Mark, life: Life | None, report: RunReport
) -> RunReport:
    """Store a report, if the run directory is writable, and return it: its jobs are made once.

    `mark` is the position in the events, `life` the newest engine.
    """
    details = report.jobs is not None
    if report.jobs is not None:
        with collection_paused():
            report = msgspec.structs.replace(report, jobs=list(report.jobs))
    cached = CachedReport(
        mark=mark, card=opened.card, snapshot=snapshot, logs=_log_stamps(report), life=life, report=report
    )
    # A path that is no UTF-8 cannot be stored.
    with suppress(OSError, UnicodeEncodeError):
        write_cached(opened.run, _NAMES[details], msgspec.json.encode(cached))
    return report


def _is_newest(opened: OpenRun, mark: Mark) -> bool:
    """Tell whether there are no events after a mark."""
    try:
        answer = opened.brief_events(mark)
        # Damage before the mark is raised when what follows it is read.
        return not isinstance(answer, Unreachable) and answer[1] == mark and not any(answer[0])
    except (StaleMarkError, DamagedError):
        return False


def _log_stamps(report: RunReport) -> dict[str, tuple[int, int] | None]:
    failures = report.summary.failures if report.summary else ()
    return {failure.log: _file_stamp(Path(failure.log)) for failure in failures if failure.log}


def _file_stamp(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
