"""Finds the directory of a run by its id, the beginning of its id, a path, or ``@last``.

Commands that change a run take ``@last`` only where it is sure which run a user means. So this module also records
the submits that were refused: who types ``@last`` after one means the run that there is not.
"""

from __future__ import annotations

import logging
import math
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import RUN_FOLDER_VARIABLE, RunPaths
from longshore.errors import (
    DECODE_ERRORS,
    LongshoreError,
    RunNotFoundError,
    RunNotMeantError,
    SubmissionUncertainError,
    UnknownRunError,
)
from longshore.model.submission import RunIdentity
from longshore.model.wording import NAME_LIKENESS, did_you_mean, format_timestamp
from longshore.rundir.archive_names import archive_suffix
from longshore.rundir.registry import RegistryEntry, read_entries, read_entry, registered_path, state_folder
from longshore.rundir.run_directory import read_card, shown_directory
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, remove_file
from longshore.system.host import working_directory
from longshore.system.reading import read_file, real_path

LOG: Final = logging.getLogger(__name__)
LAST_RUN: Final = "@last"
"""Reference to the last run that was submitted from the working directory, a parent of it, or elsewhere."""
_MOST_IDS: Final = 8
"""Ids that an error names at most."""
_REFERENCE_HINT: Final = (
    "A run is named by its id, the beginning of its id, the path of its submit directory, or @last."
)


class RefusedSubmit(msgspec.Struct, frozen=True, kw_only=True):
    """The newest submit of a directory, if it made no run: when, why, and whether it was refused or interrupted."""

    at: float
    why: str
    how: str = "refused"


def newest_runs(entries: Iterable[RegistryEntry]) -> list[RegistryEntry]:
    """Return the runs that `LAST_RUN` may mean, the best first.

    These are the runs that were submitted from here, then from the nearest parent, then all others, each newest first.
    A person means runs that persons submitted, and a job those that jobs of the same run submitted.
    """
    here, outer = working_directory(), run_of_this_job()
    return sorted(
        entries,
        key=lambda entry: (
            _nearness(entry, here) > 0,
            entry.submitted_in == outer,
            _nearness(entry, here),
            entry.created_at,
            entry.id,
        ),
        reverse=True,
    )


def run_of_this_job() -> str:
    """Return the directory of the run whose job this process belongs to; empty outside of jobs."""
    return os.environ.get(RUN_FOLDER_VARIABLE, "")


def run_reference(run: RunPaths, card: RunIdentity) -> str:
    """Return how a command names this very directory: the id, or the path if the id is unknown or leads elsewhere."""
    return card.id if registered_path(card.id) == str(run.root) else str(shown_directory(run))


def hint_reference(run: RunPaths) -> str:
    """Return how a hint names a run in a command for the shell."""
    try:
        return shlex.quote(run_reference(run, read_card(run)))
    except (LongshoreError, OSError):
        return shlex.quote(str(run.root))


def find_run(reference: str, *, acts: bool = False) -> RunPaths:
    """Find the directory of a run by its id, a unique prefix of the id, a path, or ``@last``.

    With `acts`, the run is to be changed. Raises `RunNotFoundError` when no run, or more than one, matches, and
    `RunNotMeantError` if ``@last`` may be another run than the user means, and `acts`.
    """
    by_id = read_entry(reference) if reference.isalnum() else None
    if by_id:
        return RunPaths(Path(by_id.path))
    # `os.path`, unlike `Path`, gives an answer for names that are too long and for circular links.
    is_file = bool(archive_suffix(reference)) and os.path.isfile(reference)  # noqa: PTH113
    if "/" in reference or is_file or (reference and os.path.isdir(reference)):  # noqa: PTH112
        return RunPaths(real_path(reference))
    known = list(read_entries())
    if reference == LAST_RUN:
        return _find_last(known, acts=acts)
    if by_other_id := [entry for entry in known if not {reference, f"{reference}.0"}.isdisjoint(entry.other_ids)]:
        # A workload manager that was reinstalled counts its ids from the beginning again.
        return RunPaths(Path(max(by_other_id, key=lambda entry: (entry.created_at, entry.id)).path))
    by_prefix = [entry for entry in known if reference and entry.id.startswith(reference)]
    if len(by_prefix) == 1:
        return RunPaths(Path(by_prefix[0].path))
    if by_prefix:
        ids = ", ".join(entry.id for entry in by_prefix[:_MOST_IDS])
        more = f" and {len(by_prefix) - _MOST_IDS} more" if by_prefix[_MOST_IDS:] else ""
        raise RunNotFoundError(
            f"'{reference}' is the beginning of {len(by_prefix)} run ids: {ids}{more}", hint="Give more of the id."
        )
    names = [LAST_RUN, *(entry.id for entry in known)]
    hint = did_you_mean(reference, names, likeness=NAME_LIKENESS) or _REFERENCE_HINT
    raise UnknownRunError(f"no run '{reference}' is known", hint=hint)


@contextmanager
def recorded_refusal() -> Iterator[None]:
    """Record that the submit in the body was refused, for the directory that it was typed in."""
    folder = working_directory()
    try:
        yield
    except SubmissionUncertainError:
        # The run has its id, and may be live.
        raise
    except KeyboardInterrupt as interrupt:
        if str(interrupt).startswith("nothing was submitted"):
            record_refusal(str(interrupt), folder, how="interrupted")
        raise
    except Exception as error:
        record_refusal(error.message if isinstance(error, LongshoreError) else str(error), folder)
        raise
    if folder and not run_of_this_job():
        with suppress(OSError):
            remove_file(_refusal_path(folder))


def record_refusal(why: str, folder: str = "", *, how: str = "refused") -> None:
    """Record a refused submit for a directory, by default this one; a job's is none of the user's."""
    folder = folder or working_directory()
    if not folder or run_of_this_job():
        return
    path = _refusal_path(folder)
    text = why.encode(errors="replace").decode().split("\n")[0]
    at = time.time()
    with suppress(LongshoreError, OSError):
        # Runs that are submitted in one second have times of their own, up to some seconds ahead.
        at = max([at, *(math.nextafter(each.created_at, math.inf) for each in newest_runs(list(read_entries()))[:1])])
    with suppress(OSError):
        make_folders(path.parent)
        write_atomically(path, msgspec.json.encode(RefusedSubmit(at=at, why=text, how=how)))


def _refusal_path(folder: str) -> Path:
    from hashlib import sha256

    return state_folder() / "refused" / f"{sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def _read_refusal(folder: str) -> RefusedSubmit | None:
    try:
        return msgspec.json.decode(read_file(_refusal_path(folder)), type=RefusedSubmit) if folder else None
    except (OSError, *DECODE_ERRORS):
        return None


def is_last_meant() -> bool:
    """Whether a command that changes a run takes ``@last`` here."""
    try:
        _choose_last(list(read_entries()), acts=True)
    except (LongshoreError, OSError):
        return False
    return True


def _find_last(known: Sequence[RegistryEntry], *, acts: bool) -> RunPaths:
    last, note = _choose_last(known, acts=acts)
    if note:
        _note(note)
    return RunPaths(Path(last.path))


def _choose_last(known: Sequence[RegistryEntry], *, acts: bool) -> tuple[RegistryEntry, str]:
    """Return the run that ``@last`` names, and a note on it; empty if it is what anybody expects."""
    here = working_directory()
    refused = _read_refusal(here)
    last = newest_runs(known)[0] if known else None
    if refused is not None and (last is None or last.created_at < refused.at):
        when = f"the last submit from this directory was {refused.how} at {format_timestamp(refused.at)}"
        if acts or last is None:
            raise RunNotMeantError(
                f"{when}, so '{LAST_RUN}' is no run: {refused.why}",
                path=last.path if last else "",
                hint=f"The run before it is {_describe(last)}. If you mean that one, type its id: {last.id}"
                if last
                else _REFERENCE_HINT,
            )
        return last, f"{when}: '{LAST_RUN}' is the run before it, {_describe(last)}"
    if last is None:
        raise RunNotFoundError("there is no last run: the registry is empty", hint=_REFERENCE_HINT)
    nearness = _nearness(last, here)
    if acts and (not nearness or last.submitted_in not in {"", run_of_this_job()}):
        by_job = " by a person" if nearness else ""
        raise RunNotMeantError(
            f"no run was submitted{by_job} from this directory or a parent of it, so '{LAST_RUN}' may not be the run "
            "that you mean",
            path=last.path,
            hint=f"The newest run is {_describe(last)}. If you mean that one, type its id: {last.id}",
        )
    if last.submitted_from == here and here:
        return last, ""
    what = "'{}' is {}" if nearness else "no run was submitted from this directory: '{}' is the newest of all, {}"
    return last, what.format(LAST_RUN, _describe(last))


def _nearness(entry: RegistryEntry, folder: str) -> int:
    """Return a number for a run that was submitted from a folder or a parent of it, larger if nearer; 0 for others."""
    start = entry.submitted_from
    is_near = bool(folder and start) and (start == folder or folder.startswith(f"{start.rstrip('/')}/"))
    return len(start) if is_near else 0


def _describe(entry: RegistryEntry) -> str:
    place = f", submitted from '{entry.submitted_from}'" if entry.submitted_from else ""
    by = f" by a job of '{entry.submitted_in}'" if entry.submitted_in else ""
    return f"'{entry.id}' ({entry.name}){place}{by}"


@lru_cache(maxsize=64)
def _note(text: str) -> None:
    """Log a note on `LAST_RUN`, once."""
    LOG.warning("%s", text)
