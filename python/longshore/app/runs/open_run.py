"""Opens a run that was handed over before: by id, beginning of an id, path, or ``@last``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from longshore.app.configure.service_lookup import find_service, queryable_services, short_name
from longshore.contract.capabilities import BriefEvents, LogLocator, Queryable
from longshore.contract.context import Mark, RunPaths, Unreachable, log_path
from longshore.contract.search import RunSearch
from longshore.contract.service import EventSource, WmsService
from longshore.engine.run.service_capabilities import event_source, is_alive, log_locator
from longshore.errors import LongshoreError, RunNotFoundError, RunUnreadableError, ServiceError, UnknownServiceError
from longshore.model.run.event import Event, News
from longshore.model.run.state import JobState
from longshore.model.run.submission import RunCard
from longshore.world.runs.registry import Entry, find_run, path_of, register
from longshore.world.runs.run_directory import read_card

_DAYS: Final = 2.0
"""How far back a run is looked for that is over."""


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A run and what it takes to talk about it."""

    run: RunPaths
    card: RunCard

    @cached_property
    def service(self) -> WmsService:
        """The run's service, imported when it is first asked: what is over can be told of without.

        Raises
        ------
        UnknownServiceError
            It is not installed here.
        """
        return find_service(self.card.service)

    @cached_property
    def log_locator(self) -> LogLocator | None:
        """Where logs are, if not at `RunPaths.log_of`."""
        return log_locator(self.service, self.run)

    @cached_property
    def event_source(self) -> EventSource:
        """What tells the events of the run: its service, or what derives them from the service's reports."""
        return event_source(self.service)

    def events(self, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """The events of the run after a mark; see `EventSource.events`."""
        return self.event_source.events(self.run, mark)

    def brief_events(self, mark: Mark = "") -> tuple[Iterator[News], Mark] | Unreachable:
        """The same in short, if the service can; see `BriefEvents.brief_events`."""
        if isinstance(self.service, BriefEvents):
            return self.service.brief_events(self.run, mark)
        return self.events(mark)

    @property
    def reported_counts(self) -> Mapping[str, Mapping[JobState, int]]:
        """Number of jobs per label and state, for labels whose jobs the service only counts; read with the events."""
        if isinstance(self.service, EventSource):
            return {}
        from longshore.engine.run.report_events import ReportedEvents

        return self.event_source.counts if isinstance(self.event_source, ReportedEvents) else {}

    def is_alive(self) -> bool | Unreachable:
        """Whether something still moves the run."""
        return is_alive(self.service, self.run)

    def log_of(self, index: int, name: str, label: str, attempt: int) -> str:
        """Path of an attempt's log, relative to the run directory.

        Parameters
        ----------
        index, name, label
            The job.
        attempt
            Number of the attempt.
        """
        places = self.log_locator
        return places.path(index, name, label, attempt) if places else log_path(index, name, label, attempt)


def open_run(reference: str, *, service: str | None = None, everywhere: bool = False, tell: bool = True) -> OpenRun:
    """Open a run.

    Parameters
    ----------
    reference
        Its id, the beginning of its id, its path, or ``@last``.
    service
        The service it is said to belong to; the run itself knows better.
    everywhere
        Whether all queues of its manager are searched for an id that nobody here knows.
    tell
        Whether to say, if its manager knows it, that its directory is not here.

    Raises
    ------
    RunNotFoundError
        There is none of that name, or it cannot be read.
    UnknownServiceError
        Its service is not the one it is said to belong to.
    """
    run = _find(reference, service, everywhere=everywhere, tell=tell)
    if is_gone(run.root):
        raise RunNotFoundError(
            f"there is no run directory '{run.root}'",
            hint="If the run was moved, name it by its new path; if it was removed, there is no more to know of it.",
        )
    card = read_card(run)
    if service and short_name(service) != short_name(card.service):
        raise UnknownServiceError(
            f"run '{card.id}' belongs to the service '{card.service}', not to '{service}'",
            hint="Leave --wms-service-class out: a run knows its service.",
        )
    known = path_of(card.id)
    if card.id != reference and path_of(reference) == str(run.root):
        raise RunNotFoundError(
            f"'{run.root}' was the directory of run '{reference}', and now is that of run '{card.id}'",
            hint=f"If run '{reference}' was removed: longshore forget {reference}",
        )
    if known != str(run.root) and card.submissions and (known is None or is_same_run(known, card) is None):
        # It was moved, or the registry was lost: from now on its id finds it again.
        register(Entry.of(card, str(run.root)))
    return OpenRun(run=run, card=card)


def is_managers_id(reference: str) -> bool:
    """Whether it can be an id that a workload manager gives: ours begin with a letter; global ids have two ``#``.

    Parameters
    ----------
    reference
        What a run is named by.
    """
    return reference[:1].isdigit() or reference.count("#") == 2


def _find(reference: str, service: str | None, *, everywhere: bool, tell: bool) -> RunPaths:
    """The directory of a run, asked of its workload manager where nobody here knows an id of that kind."""
    try:
        return find_run(reference)
    except RunNotFoundError:
        if not is_managers_id(reference):
            raise
        from longshore.app.configure.layers import SERVICE_VARIABLE

        managers = list(queryable_services(service or os.environ.get(SERVICE_VARIABLE)))
        for manager in managers:
            found = manager.find_run(reference, everywhere=everywhere)
            if found is not None:
                return RunPaths(found)
        for manager in managers if tell else ():
            _refuse_remote(reference, manager)
        raise


def _refuse_remote(reference: str, manager: Queryable) -> None:
    """Say where the directory of a run is that is not here."""
    try:
        found = manager.query_runs(RunSearch(reference=reference, days=_DAYS)).reports
    except ServiceError:
        return
    for report in found:
        raise RunNotFoundError(
            f"the directory of run '{reference}' is not here: it is '{report.path}' on the host it was submitted from",
            hint="'report', 'status' and 'cancel' work from here; anything else where the directory is.",
        ) from None


def is_gone(path: str | Path) -> bool:
    """Whether nothing is there of that name; what may not be looked at is there as far as anybody can tell.

    Parameters
    ----------
    path
        The path.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


@contextmanager
def readable(run: RunPaths) -> Iterator[None]:
    """Say in our words, and with one exit status, that a run directory went away or cannot be read.

    Parameters
    ----------
    run
        The run directory that the body reads.

    Raises
    ------
    RunNotFoundError
        It went away while it was read.
    RunUnreadableError
        It is torn, or may not be read.
    """
    try:
        yield
    except (RunUnreadableError, OSError) as error:
        if is_gone(run.root):
            raise RunNotFoundError(
                f"'{run.root}' is gone: the run directory was removed or moved while it was read",
                hint="If it was moved, name the run by its new path.",
            ) from error
        if isinstance(error, OSError):
            raise RunUnreadableError(f"'{error.filename or run.root}' cannot be read: {error.strerror}") from error
        raise


@contextmanager
def of_one_run(run: RunPaths) -> Iterator[None]:
    """Say that a journal tells of jobs that the workflow beside it does not have.

    Parameters
    ----------
    run
        The run directory whose events the body takes in: a job's number is a place in a list there.

    Raises
    ------
    RunUnreadableError
        Somebody has put files of two runs together.
    """
    try:
        yield
    except IndexError as error:
        raise RunUnreadableError(
            f"'{run.journal}' tells of jobs that '{run.workflow}' does not have: they are not of one run"
        ) from error


def is_same_run(path: str, card: RunCard) -> bool | None:
    """Whether a directory holds a certain run, or a copy of it; ``None`` where it holds none of that id.

    Parameters
    ----------
    path
        The directory.
    card
        The run.
    """
    try:
        found = read_card(RunPaths(Path(path)))
    except LongshoreError:
        return None
    return found.mark == card.mark if found.id == card.id else None
