"""Checks of the registry and of runs: entries without directory, runs without entry, dead engines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

from longshore.app.configure.service_lookup import short_name
from longshore.app.maintain.diagnosis import Diagnosis, DiagnosisState
from longshore.app.report.brief_report import status_run
from longshore.app.report.from_snapshot import END_STATES
from longshore.app.runs.open_run import READ_ERRORS, OpenRun, describe_read_error, is_missing
from longshore.contract.context import RunPaths
from longshore.errors import LongshoreError
from longshore.model.wording import count_noun
from longshore.world.archives.archive_names import archive_suffix
from longshore.world.files.permissions import closed_hint
from longshore.world.processes.parallel_calls import call_in_parallel
from longshore.world.runs.manifests import with_newest_counts
from longshore.world.runs.owner import is_own_run
from longshore.world.runs.registry import RegistryContent, RegistryEntry, journal_stamp, registry_folder
from longshore.world.runs.run_directory import read_card

_REGISTRY: Final = "registry"
_RUNS: Final = "runs"
_MOST_NAMES: Final = 8
_MOST_ENTRIES: Final = 20_000
"""Names of files that a search for unregistered runs reads at most."""
_LOOK_S: Final = 4.0
"""Seconds for a look at all unfinished runs, within those of `doctor`."""
_LOOKS_AT_ONCE: Final = 8
_MOST_RUNS: Final = 500
"""Unfinished runs whose engines are looked for at most, the newest."""


def check_registry(known: RegistryContent) -> Iterator[Diagnosis]:
    """Check that the entries of the registry and the run directories fit each other."""
    if known.problem:
        hint = closed_hint(registry_folder()) or "Let XDG_STATE_HOME name a folder that you may read and write."
        yield _diagnosis(_REGISTRY, DiagnosisState.ERROR, known.problem, hint)
        return
    if known.unreadable:
        message = f"files of the registry that cannot be read: {_names(known.unreadable)}"
        yield _diagnosis(_REGISTRY, DiagnosisState.WARNING, message, "longshore adopt DIRECTORY_OF_THE_RUN")
    gone = [entry.id for entry in known.entries if is_missing(entry.path)]
    if gone:
        message = f"{count_noun(len(gone), 'registered run')} without directory: {_names(gone)}"
        yield _diagnosis(_REGISTRY, DiagnosisState.NOTE, message, "longshore forget --missing")
    closed = [entry for entry in known.entries if _is_closed(entry)]
    if closed:
        message = f"{count_noun(len(closed), 'registered run')} that cannot be read: {_names([e.id for e in closed])}"
        hint = closed_hint(Path(closed[-1].path))
        yield _diagnosis(_REGISTRY, DiagnosisState.WARNING, message, hint)
    unregistered = find_unregistered_runs(known.entries)
    for path in unregistered[:_MOST_NAMES]:
        message = f"the run '{path}' is not in the registry"
        yield _diagnosis(_REGISTRY, DiagnosisState.NOTE, message, f"longshore adopt {quote(str(path))}")
    if more := unregistered[_MOST_NAMES:]:
        message = f"{count_noun(len(more), 'more run')}: not in the registry either"
        yield _diagnosis(
            _REGISTRY, DiagnosisState.NOTE, message, f"longshore adopt {quote(str(unregistered[0].parent))}"
        )
    message = f"{count_noun(len(known.entries) - len(gone), 'registered run')} with directory"
    yield _diagnosis(_REGISTRY, DiagnosisState.OK, message)


def _is_closed(entry: RegistryEntry) -> bool:
    """Whether the directory or archive of a registered run is there, and closed to this user."""
    if is_missing(entry.path):
        return False
    needed = os.R_OK if archive_suffix(entry.path) else os.R_OK | os.X_OK
    return not os.access(entry.path, needed, effective_ids=True)


def find_unregistered_runs(entries: Sequence[RegistryEntry]) -> list[Path]:
    """Find submitted runs of this user beside registered ones, and beside their folders, that are not registered."""
    paths, ids = {entry.path for entry in entries}, {entry.id for entry in entries}
    places = dict.fromkeys(
        folder for entry in reversed(entries) for folder in (Path(entry.path).parent, Path(entry.path).parent.parent)
    )
    budget = iter(range(_MOST_ENTRIES))
    found = {}
    for folder in places:
        for path in _folders_in(folder, budget):
            if path in paths or path in found or not os.path.lexists(f"{path}/run.json"):
                continue
            run = RunPaths(Path(path))
            try:
                card = read_card(run)
            except (LongshoreError, OSError):
                continue
            if card.submissions and card.id not in ids and is_own_run(run.root):
                found[path] = run.root
    return sorted(found.values())


def _folders_in(folder: Path, budget: Iterator[int]) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, budget, strict=False):
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    yield entry.path
    except OSError:
        return


def unfinished_services(entries: Sequence[RegistryEntry]) -> set[str]:
    """Return the services of runs that may be unfinished; only entries are looked at, so that no file server hangs."""
    return {entry.service for entry in entries if entry.report is None}


def uses_service(entries: Sequence[RegistryEntry], service: str) -> bool:
    """Whether an unfinished run uses a service, by its short name."""
    return any(map(_may_go_on, _unfinished([entry for entry in entries if short_name(entry.service) == service])))


def _may_go_on(opened: OpenRun) -> bool:
    """Tell whether a run is not over, or cannot be read; the registry learns of an end only from some commands."""
    try:
        return status_run(opened).state not in END_STATES
    except READ_ERRORS:
        return True


def _unfinished(entries: Sequence[RegistryEntry]) -> Iterator[OpenRun]:
    """Yield own runs that have no final state in the registry, newest first; unreadable ones are left out."""
    for entry in reversed(entries):
        root = Path(entry.path)
        try:
            if entry.report is not None and journal_stamp(entry.path) == entry.stamp:
                continue
            run = RunPaths(root)
            card = read_card(run)
        except (LongshoreError, OSError):
            continue
        if card.id == entry.id and is_own_run(root):
            yield OpenRun(run=run, card=with_newest_counts(run, card))


def check_engines(entries: Sequence[RegistryEntry], *, limit_s: float = _LOOK_S) -> Iterator[Diagnosis]:
    """Find runs that nothing drives any more, and submissions that were killed; many are looked at side by side."""
    unfinished = _unfinished(entries)
    looks, is_whole = call_in_parallel(
        _look_at_run, islice(unfinished, _MOST_RUNS), threads=_LOOKS_AT_ONCE, limit_s=limit_s
    )
    yield from (look.diagnosis for look in looks if look.diagnosis is not None)
    if not is_whole:
        message = f"only {count_noun(len(looks), 'unfinished run')} of yours could be looked at within {limit_s:g} s"
        hint = "A file server or a workload manager may hang. The list of runs: longshore report"
        yield _diagnosis(_RUNS, DiagnosisState.WARNING, message, hint)
    elif len(looks) == _MOST_RUNS and next(unfinished, None):
        message = f"only the newest {_MOST_RUNS} unfinished runs were looked at"
        yield _diagnosis(_RUNS, DiagnosisState.NOTE, message, "The list of runs: longshore report")
    live = sum(look.is_live for look in looks)
    yield _diagnosis(_RUNS, DiagnosisState.OK, f"{count_noun(live, 'run')} in progress")


class _Look(NamedTuple):
    """What one look at an unfinished run found."""

    diagnosis: Diagnosis | None = None
    is_live: bool = False


def _look_at_run(opened: OpenRun) -> _Look:
    name = f"run '{opened.card.id}' in '{opened.run.root}'"
    if opened.run.submitting.exists():
        hint = f"longshore submit {quote(str(opened.run.root))}"
        return _Look(_diagnosis(_RUNS, DiagnosisState.WARNING, f"the submission of {name} did not end", hint))
    try:
        # In this order: a run that ends in between is over, and not one whose engine died.
        alive = opened.is_alive()
        state = status_run(opened).state
    except READ_ERRORS as error:
        message = f"{name} cannot be read: {describe_read_error(error)}"
        hint = f"longshore verify {opened.reference}"
        return _Look(_diagnosis(_RUNS, DiagnosisState.WARNING, message, hint))
    if state in END_STATES or not opened.card.submissions:
        return _Look()
    if alive is False:
        message = f"nothing drives {name} any more: its engine died"
        return _Look(_diagnosis(_RUNS, DiagnosisState.WARNING, message, f"longshore resume {opened.reference}"))
    return _Look(is_live=True)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else ""
    return f"{', '.join(names[-_MOST_NAMES:])}{more}"


def _diagnosis(area: str, state: DiagnosisState, message: str, hint: str = "") -> Diagnosis:
    return Diagnosis(area=area, state=state, message=message, hint=hint)
