"""Report cache: stores the report of a run without further changes, valid until there is news.

The replay of a long journal is stored too, for the next report with single jobs of a run that goes on.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore import __version__
from longshore.app.report.job_reports import JobColumns, JobReports, StoredJobReports
from longshore.app.report.replayed_events import ReplayedEvents, StoredReplay, decode_array, encode_array
from longshore.app.runs.open_run import OpenRun
from longshore.contract.capabilities import BriefEvents
from longshore.contract.context import Mark, RunPaths, Unreachable
from longshore.contract.service import StaleMarkError
from longshore.engine.journal.late import late_path
from longshore.engine.journal.read_journal import checksum_at
from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.run.damage import DamagedError
from longshore.model.run.event import Life
from longshore.model.run.report import RunReport
from longshore.model.run.snapshot import Snapshot
from longshore.model.run.submission import RunIdentity
from longshore.model.workflow.collection_pause import collection_paused
from longshore.world.files.read_file import full_stamp
from longshore.world.runs.manifests import workflow_path
from longshore.world.runs.run_directory import read_cached, write_cached

_FORMAT: Final = 10
_NAMES: Final = {False: "report.json", True: "details.json"}
"""Names of the cached report without single jobs, and with them."""
_REPLAY_FORMAT: Final = 4
_REPLAY: Final = "replay.msgpack"
_MANY_EVENTS: Final = 20_000
_JOBS_PER_EVENT: Final = 5
"""Fewer new events than `_MANY_EVENTS`, or than one per so many jobs, take less time to read than a replay to store."""


class CachedReport(msgspec.Struct, frozen=True, kw_only=True):
    """Cached report with its inputs: a change of any input invalidates it.

    `format` and `longshore` identify the writer. `mark` is the position in the events; `card`, `snapshot`, `life` (the
    newest engine) and `workflow`, a stamp of its file, are the other inputs. `logs` has modification time and size of
    example logs, ``None`` for a missing log. The jobs of `report` are in `jobs`, as columns, which are smaller and
    faster than a hundred thousand records.
    """

    format: int = _FORMAT
    longshore: str = __version__
    mark: Mark
    card: RunIdentity
    workflow: tuple[int, ...]
    snapshot: Snapshot | None
    logs: dict[str, tuple[int, int] | None]
    life: Life | None
    report: RunReport
    jobs: JobColumns | None


class CachedReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Cached replay with what it is valid for; `mark` is the position in the events up to which it goes.

    `checksum` is the running checksum of the journal there: a journal that was brought back from a copy has other
    events at the same position. `late` has the sizes of the late events of lives before the newest, which are read in
    front of it. `workflow` is a stamp of the file with the run's jobs.
    """

    format: int = _REPLAY_FORMAT
    longshore: str = __version__
    mark: Mark
    checksum: int
    late: tuple[int, ...]
    card: RunIdentity
    workflow: tuple[int, ...]
    replay: StoredReplay


class _Writer(msgspec.Struct):
    """Writer of a cache file."""

    format: int
    longshore: str


def caches_details(opened: OpenRun) -> bool:
    """Return whether reports with single jobs are cached: where the service has a shorter form of its slow events."""
    return isinstance(opened.service, BriefEvents)


def read_cached_report(opened: OpenRun, snapshot: Snapshot | None, *, details: bool = False) -> CachedReport | None:
    """Return the cached report if all its inputs are unchanged; `snapshot` is the engine's newest.

    With `details`, it is the report with single jobs.
    """
    text = read_cached(opened.run, _NAMES[details]) if opened.card_damage is None else b""
    try:
        with collection_paused():
            cached = msgspec.json.decode(text, type=CachedReport) if text else None
    except DECODE_ERRORS:
        return None
    if cached is None or (cached.format, cached.longshore) != (_FORMAT, __version__):
        return None
    if (cached.report.path, cached.card, cached.snapshot) != (str(opened.directory), opened.card, snapshot):
        return None
    if cached.workflow != _workflow_stamp(opened.run):
        return None
    if not _is_newest(opened, cached.mark) or cached.logs != _log_stamps(cached.report):
        return None
    jobs = StoredJobReports(cached.jobs) if cached.jobs is not None else None
    return msgspec.structs.replace(cached, report=msgspec.structs.replace(cached.report, jobs=jobs), jobs=None)


def cache_report(
    opened: OpenRun, snapshot: Snapshot | None, *, mark: Mark, life: Life | None, report: RunReport
) -> RunReport:
    """Store a report, if the run directory is writable, and return it: its jobs are made once.

    `mark` is the position in the events, `life` the newest engine.
    """
    if opened.card_damage is not None:
        return report
    columns: JobColumns | None = None
    if isinstance(report.jobs, JobReports):
        with collection_paused():
            jobs = StoredJobReports.of(report.jobs)
        report, columns = msgspec.structs.replace(report, jobs=jobs), jobs.stored
    cached = CachedReport(
        mark=mark,
        card=opened.card,
        workflow=_workflow_stamp(opened.run),
        snapshot=snapshot,
        logs=_log_stamps(report),
        life=life,
        report=msgspec.structs.replace(report, jobs=None),
        jobs=columns,
    )
    # A path that is no UTF-8 cannot be stored.
    with suppress(OSError, UnicodeEncodeError):
        write_cached(opened.run, _NAMES[columns is not None], msgspec.json.encode(cached))
    return report


def read_cached_replay(opened: OpenRun) -> CachedReplay | None:
    """Return the cached replay of the run's events if it is of this submission; later events are not in it."""
    text = read_cached(opened.run, _REPLAY)
    if not text:
        return None
    try:
        writer = msgspec.msgpack.decode(text, type=_Writer)
        if (writer.format, writer.longshore) != (_REPLAY_FORMAT, __version__):
            return None
        cached = msgspec.msgpack.decode(text, type=CachedReplay, dec_hook=decode_array)
        if (cached.card, cached.workflow) != (opened.card, _workflow_stamp(opened.run)):
            return None
        if cached.late != _late_sizes(opened.run, cached.mark) or cached.replay.size != opened.card.expected:
            return None
        return cached if cached.checksum == checksum_at(opened.run.journal, cached.mark) else None
    except (*DECODE_ERRORS, OSError, RunUnreadableError, DamagedError):
        return None


def encode_replay(opened: OpenRun, replayed: ReplayedEvents, *, mark: Mark, number: int) -> bytes:
    """Encode a replay for the cache; empty if only few events, `number`, are new to it.

    `mark` is the position in the events. To be called before the replay is finished.
    """
    # Imported here: a report from a snapshot does without.
    from longshore.engine.run.engine_service import EngineService

    has_journal = isinstance(opened.service, EngineService) and not caches_details(opened)
    if number < max(_MANY_EVENTS, replayed.state.size // _JOBS_PER_EVENT) or not has_journal:
        return b""
    checksum = checksum_at(opened.run.journal, mark)
    with replayed.stored() as replay:
        if replay is None or checksum is None:
            return b""
        cached = CachedReplay(
            mark=mark,
            checksum=checksum,
            late=_late_sizes(opened.run, mark),
            card=opened.card,
            workflow=_workflow_stamp(opened.run),
            replay=replay,
        )
        try:
            return msgspec.msgpack.encode(cached, enc_hook=encode_array)
        except OverflowError:
            # A number in an event has no room; the report has.
            return b""


def cache_replay(opened: OpenRun, replay: bytes) -> None:
    """Store an encoded replay, if the run directory is writable."""
    with suppress(OSError):
        write_cached(opened.run, _REPLAY, replay)


def _late_sizes(run: RunPaths, mark: Mark) -> tuple[int, ...]:
    """Return the sizes of the late events of lives before the one that a mark names."""
    earlier = range(1, int(mark.partition(":")[0]))
    stamps = (_file_stamp(late_path(run.journal, life)) for life in earlier)
    return tuple(stamp[1] if stamp else 0 for stamp in stamps)


def _workflow_stamp(run: RunPaths) -> tuple[int, ...]:
    """Return a stamp of the workflow, which was compared with its manifest when the cache was written."""
    return full_stamp(workflow_path(run))


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
