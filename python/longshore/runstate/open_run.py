"""How what a user names becomes a submitted run that is open, with its service and events, and jobs of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from longshore.config.service_lookup import (
    environment_service,
    find_run_service,
    find_service,
    queryable_services,
    service_names,
    short_name,
)
from longshore.contract.capabilities import (
    BriefEvents,
    LivenessProbe,
    LogLocator,
    Queryable,
    RunMirroring,
    journal_is_complete,
    log_locator,
)
from longshore.contract.executor import ExecutorOwner
from longshore.contract.service import (
    EventSource,
    Mark,
    ReportSource,
    RunPaths,
    RunSearch,
    Unreachable,
    WmsService,
    log_path,
)
from longshore.errors import (
    DECODE_ERRORS,
    FilesError,
    LongshoreError,
    RunNotFoundError,
    RunUnreadableError,
    ServiceError,
    UnknownServiceError,
)
from longshore.model.event import BriefEvent, Event, Finished, Life
from longshore.model.report import Damage
from longshore.model.states import JobState
from longshore.model.submission import RunIdentity
from longshore.model.wording import NAME_LIKENESS, did_you_mean, first_of
from longshore.rundir.archive_names import archive_suffix, is_archive
from longshore.rundir.archived_runs import unpack_archive
from longshore.rundir.find_run import find_run, run_reference
from longshore.rundir.job_table import JobTable
from longshore.rundir.registry import RegistryEntry, registered_path, write_entry
from longshore.rundir.run_directory import is_own_run, mirror_of, read_card, read_mirror, shown_directory
from longshore.rundir.submissions import is_card_damaged, with_newest_counts
from longshore.system.room import CLOSED_ERRORS, closed_hint

if TYPE_CHECKING:
    from longshore.rundir.journal_damage import JournalSurvey
    from longshore.runstate.run_state import RunState

# Events and liveness, by what the service can do.


def event_source(service: WmsService) -> EventSource:
    """Return the event source of a service's runs: the service, or one that derives events from its reports."""
    if isinstance(service, EventSource):
        return service
    # Imported here: few services need it.
    from longshore.runstate.report_events import ReportedEvents

    assert isinstance(service, ReportSource)  # held by `find_service`
    return ReportedEvents(service, service.name)


def is_alive(service: WmsService, run: RunPaths) -> bool | Unreachable:
    """Return whether a run is live: by the service's probe, else by its report or its events."""
    if isinstance(service, LivenessProbe):
        return service.is_alive(run)
    if not read_card(run).submissions:
        if run.submitting.exists():
            return Unreachable(why=f"the service '{service.name}' cannot tell whether it arrived")
        return False
    if isinstance(service, ReportSource):
        report = service.report(run)
        return report if isinstance(report, Unreachable) else not report.is_over
    answer = event_source(service).events(run)
    if isinstance(answer, Unreachable):
        return answer
    over = False
    for event in answer[0]:
        if isinstance(event, Finished | Life):
            over = isinstance(event, Finished)
    return not over


# Runs and jobs that users name.


def current_run(run: RunPaths) -> RunPaths:
    """Return the run directory of a path: itself, or the mirror of another tool's directory, up to date.

    A path that is neither is returned as it is.

    Raises
    ------
    RunNotFoundError
        The run is a mirror, and the mirrored directory is gone.
    RunUnreadableError
        The mirrored directory cannot be read.
    """
    if run.card.exists():
        mirror = read_mirror(run)
        return run if mirror is None else _refreshed(run, Path(mirror.directory))
    return mirror_directory(run.root) or run


def mirror_directory(folder: Path) -> RunPaths | None:
    """Return the mirror of a directory; ``None`` if no service knows the tool that made it."""
    if not folder.is_dir():
        return None
    for name in service_names():
        try:
            service = find_service(name)
        except UnknownServiceError:
            continue
        if isinstance(service, RunMirroring) and (found := service.mirror_run(folder)) is not None:
            return found
    return None


def _refreshed(run: RunPaths, folder: Path) -> RunPaths:
    try:
        found = mirror_directory(folder)
    except FilesError:
        # A full disk: what is known already can still be read.
        return run
    if found is None:
        raise RunNotFoundError(
            f"'{folder}' is no submit directory any more",
            hint="If it was moved, name it by its new path; if it was removed, no record of it is left.",
        )
    return mirror_of(folder)


_Record = TypeVar("_Record", bound=msgspec.Struct)
_SEARCH_DAYS: Final = 2.0
"""Days to look back for a finished run."""


class OpenRun(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Opened run: its directory, card and service."""

    run: RunPaths
    card: RunIdentity

    @cached_property
    def service(self) -> WmsService:
        """Service of the run, imported on first use; a finished run can be reported without it.

        Raises `UnknownServiceError` if it is not installed, or is a class that the user never chose.
        """
        return find_run_service(self.card.service)

    @property
    def reference(self) -> str:
        """How a command for the shell names this very directory."""
        return quote(run_reference(self.run, self.card))

    @cached_property
    def directory(self) -> Path:
        """Directory of the run as users know it: that of the tool that made it, such as BPS, or the run directory."""
        return shown_directory(self.run)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Secrets of the configuration that the run was prepared with, as far as it can be read."""
        # Imported late: it reads YAML, and few looks show what may hold a secret.
        from longshore.config.secret_values import read_secrets

        return read_secrets(self.run.merged_config(self.card.name))

    def hide_secrets(self, text: str) -> str:
        """Mask the secrets in a text of the run that is shown, such as a reason or a command."""
        from longshore.config.secrets import hide_secrets

        return hide_secrets(text, self.secrets)

    def hide_reason(self, record: _Record) -> _Record:
        """Mask the secrets in the reason of an event or attempt: workload managers quote commands and options there."""
        for field in ("reason", "why"):
            if (text := getattr(record, field, None)) and (shown := self.hide_secrets(text)) != text:
                return msgspec.structs.replace(record, **{field: shown})
        return record

    def find_original(self) -> str | None:
        """Return the directory that the run's id leads to, if this one is a copy of it."""
        known = registered_path(self.card.id)
        return known if known and known != str(self.run.root) and is_same_run(known, self.card) else None

    @cached_property
    def log_locator(self) -> LogLocator | None:
        """Locator of logs that are not at `RunPaths.log_of`, else ``None``; it knows the events read so far."""
        return log_locator(self.service, self.run)

    @cached_property
    def survey(self) -> JournalSurvey:
        """Damage of the journal and its consequences; the first use reads the whole journal."""
        from longshore.rundir.journal_damage import JournalSurvey, survey_journal

        survey = survey_journal(self.run.journal)
        if not survey.damages and (lost := self.find_lost_lives()):
            # They may have restarted jobs that were over.
            return JournalSurvey((lost,), may_restart=True)
        return survey

    @cached_property
    def record_damages(self) -> Sequence[Damage]:
        """Damages of keepers', batch and end records that a new engine relies on; the first use reads these records."""
        from longshore.rundir.check_records import find_batch_damages, find_keeper_damages

        return (*find_keeper_damages(self.run), *find_batch_damages(self.run))

    @cached_property
    def card_damage(self) -> Damage | None:
        """What is wrong with ``run.json``; ``None`` if it is as it was written."""
        try:
            is_damaged = is_card_damaged(self.run)
        except (LongshoreError, OSError):
            # The directory may be being removed; whoever reads the file tells.
            return None
        if not is_damaged:
            return None
        unknown = "whether name, id, labels and submissions of the run are right is not known"
        return Damage(path=str(self.run.card), what="it does not fit its checksum", unknown=unknown)

    @property
    def damages(self) -> Sequence[Damage]:
        """Damages that readers of this run have met so far."""
        survey = self.survey.damages if "survey" in self.__dict__ else ()
        records = self.record_damages if "record_damages" in self.__dict__ else ()
        return (*((self.card_damage,) if self.card_damage else ()), *survey, *records)

    def find_unknown_jobs(self, state: RunState) -> frozenset[int]:
        """Return the jobs whose state is not known, after a replay, because of the damages that readers have met."""
        from longshore.runstate.replay import find_unknown_jobs

        met = any(damage is not self.card_damage for damage in self.damages)
        return find_unknown_jobs(state, self.survey) if met else frozenset()

    def look_for_damage(self) -> None:
        """Read the journal, so that `damages` includes its damage."""
        _ = self.survey

    def forget_damage(self) -> None:
        """Look anew for damage on the next use."""
        for name in ("survey", "record_damages", "card_damage"):
            self.__dict__.pop(name, None)

    def find_lost_lives(self) -> Damage | None:
        """Return what the journal of a dead engine lacks by what other files know; ``None`` if it lacks nothing."""
        from longshore.rundir.journal_damage import find_lost_lives

        lost = find_lost_lives(self.run)
        if lost is None:
            return None
        # A workload manager that runs whole workflows has the events itself.
        has_engine = isinstance(self.service, ExecutorOwner) and journal_is_complete(self.service, self.run)
        return lost if has_engine and self.is_alive() is False else None

    @cached_property
    def event_source(self) -> EventSource:
        """Source of events: the service, or an adapter that derives events from the service's reports."""
        return event_source(self.service)

    def events(self, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the run's events after a mark; see `EventSource.events`."""
        self._forget_log_locator()
        return self.event_source.events(self.run, mark)

    def brief_events(
        self, mark: Mark = "", *, with_attempts: bool = False
    ) -> tuple[Iterator[BriefEvent], Mark] | Unreachable:
        """Return shortened events if the service has them; see `BriefEvents.brief_events`."""
        if isinstance(self.service, BriefEvents):
            self._forget_log_locator()
            return self.service.brief_events(self.run, mark, with_attempts=with_attempts)
        return self.events(mark)

    def _forget_log_locator(self) -> None:
        """Make a new locator on its next use: new events may name new logs."""
        self.__dict__.pop("log_locator", None)

    @property
    def reported_counts(self) -> Mapping[str, Mapping[JobState, int]]:
        """Return job counts per label and state, for labels that the service only counts; read with events."""
        if isinstance(self.service, EventSource):
            return {}
        from longshore.runstate.report_events import ReportedEvents

        return self.event_source.counts if isinstance(self.event_source, ReportedEvents) else {}

    def is_alive(self) -> bool | Unreachable:
        """Return whether an engine or workload manager still drives the run."""
        return is_alive(self.service, self.run)

    def log_of(self, index: int, name: str, label: str, attempt: int) -> str:
        """Return the path of an attempt's log, relative to the run directory."""
        locator = self.log_locator
        return locator.path(index, name, label, attempt) if locator else log_path(index, name, label, attempt)


def open_run(
    reference: str,
    *,
    service: str | None = None,
    everywhere: bool = False,
    show_host: bool = True,
    acts: bool = False,
) -> OpenRun:
    """Open a run by id, beginning of an id, path, or ``@last``.

    `service` is the expected service. `everywhere` searches all queues of its workload manager for an unknown id.
    With `show_host`, the error for a run of another host names its directory. With `acts`, the run is to be changed.
    Raises `RunNotFoundError` if the run does not exist or cannot be read, `RunNotMeantError` if `acts` and ``@last``
    may be another run than the user means, `UnknownServiceError` if it belongs to another service.
    """
    run = _find(reference, service, everywhere=everywhere, show_host=show_host, acts=acts)
    try:
        run = current_run(run)
        is_packed = is_archive(run.root)
    except PermissionError as error:
        raise RunUnreadableError(
            f"'{run.root}' cannot be read: {error.strerror}", hint=closed_hint(run.card)
        ) from error
    if is_missing(run.root):
        kind, what = ("archive", "archive") if archive_suffix(run.root) else ("run directory", "run")
        raise RunNotFoundError(
            f"there is no {kind} '{run.root}'",
            hint=f"If the {what} was moved, name it by its new path; if it was removed, no record of it is left.",
        )
    if is_packed:
        run = unpack_archive(run.root)
    card = read_card(run)
    if service and short_name(service) != short_name(card.service):
        raise UnknownServiceError(
            f"run '{card.id}' belongs to the service '{card.service}', not to '{service}'",
            hint="Leave --wms-service-class out: a run knows its service.",
        )
    known = registered_path(card.id)
    if card.id != reference and registered_path(reference) == str(run.root):
        raise RunNotFoundError(
            f"'{run.root}' was the directory of run '{reference}', and now is that of run '{card.id}'",
            hint=f"If run '{reference}' was removed: longshore forget {reference}",
        )
    is_unknown = known is None or (known != str(run.root) and is_same_run(known, card) is None)
    if is_unknown and card.submissions and is_own_run(shown_directory(run)):
        # The run was moved or the registry was lost: registering it makes its id known again.
        write_entry(RegistryEntry.of(card, str(run.root), is_found=True))
    return OpenRun(run=run, card=with_newest_counts(run, card))


def is_manager_id(reference: str) -> bool:
    """Tell whether a reference can be a workload manager's id.

    Longshore's ids begin with a letter; global ids have two ``#``.
    """
    return reference[:1].isdigit() or reference.count("#") == 2


def _find(reference: str, service: str | None, *, everywhere: bool, show_host: bool, acts: bool) -> RunPaths:
    """Find a run's directory; an unknown id is looked up at its workload manager."""
    try:
        return find_run(reference, acts=acts)
    except RunNotFoundError:
        if not is_manager_id(reference):
            raise
        services = list(queryable_services(service or environment_service()))
        for manager in services:
            try:
                path = manager.find_run(reference, everywhere=everywhere)
            except ServiceError as error:
                # Begins with what is certain: most often the id is mistyped, and the service is not used.
                error.message = f"no run '{reference}' is known here, and {error.message}"
                raise
            if path is not None:
                return RunPaths(path)
        for manager in services if show_host else ():
            _refuse_remote(reference, manager)
        raise


def _refuse_remote(reference: str, manager: Queryable) -> None:
    """Raise the error for a run whose directory is elsewhere, with its place."""
    try:
        found = manager.query_runs(RunSearch(reference=reference, days=_SEARCH_DAYS)).reports
    except ServiceError:
        return
    for report in found:
        raise RunNotFoundError(
            f"the directory of run '{reference}' is not here: it is '{report.path}' on the host that submitted it",
            hint="'report', 'status' and 'cancel' work from here; use other commands on that host.",
        ) from None


def is_missing(path: str | Path) -> bool:
    """Tell whether a path does not exist; a path that cannot be inspected counts as existing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


READ_ERRORS: Final = (LongshoreError, OSError, LookupError, *DECODE_ERRORS)
"""Every error that a damaged run may cause: where several runs are read, none of them may hide the others."""


def describe_read_error(error: BaseException) -> str:
    """Return one of `READ_ERRORS` in words."""
    if isinstance(error, LongshoreError):
        return error.message
    if isinstance(error, OSError):
        return f"'{error.filename}': {error.strerror}" if error.filename else str(error)
    return f"{type(error).__name__}: {error}"


@contextmanager
def map_read_errors(run: RunPaths) -> Iterator[None]:
    """Map errors of reading a run directory to Longshore's errors.

    Raises `RunNotFoundError` if the directory disappeared, `RunUnreadableError` if it is damaged or not readable.
    """
    try:
        yield
    except (RunUnreadableError, OSError) as error:
        if is_missing(run.root):
            raise RunNotFoundError(
                f"'{run.root}' is gone: the run directory was removed or moved while it was read",
                hint="If it was moved, name the run by its new path.",
            ) from error
        if isinstance(error, OSError):
            path = error.filename or str(run.root)
            hint = closed_hint(Path(path)) if error.errno in CLOSED_ERRORS else ""
            raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}", hint=hint) from error
        raise


@contextmanager
def map_index_errors(run: RunPaths) -> Iterator[None]:
    """Check that a journal names only jobs of the workflow: a number is an index into its list of jobs.

    Raises `RunUnreadableError` if files of two runs were mixed, or a number is larger than any engine writes.
    """
    try:
        yield
    except OverflowError as error:
        raise RunUnreadableError(f"'{run.journal}' has a number that no engine writes: {error}") from error
    except IndexError as error:
        raise RunUnreadableError(
            f"'{run.journal}' names jobs that '{run.workflow}' lacks: the files belong to different runs"
        ) from error


def is_same_run(path: str, card: RunIdentity) -> bool | None:
    """Tell whether a folder holds this run (or a copy); ``None`` if it holds no run of that id."""
    try:
        found = read_card(RunPaths(Path(path)))
    except LongshoreError:
        return None
    return found.run_token == card.run_token if found.id == card.id else None


_MAX_DIGITS = 18
_MAX_NAMES = 5
"""Names listed in a message."""
_MAX_COMPARED = 2000
"""Names compared with an unknown one: a hundred thousand would take seconds."""


def find_job(opened: OpenRun, jobs: JobTable, reference: str) -> int:
    """Return the number of a job given by name, unique beginning of a name, or number.

    Raises `RunNotFoundError` if no job or several match.
    """
    names = jobs.names
    try:
        return names.index(reference)
    except ValueError:
        pass
    # Python converts no number of thousands of digits.
    is_number = reference.isascii() and reference.isdigit() and len(reference) <= _MAX_DIGITS
    if is_number and int(reference) < len(jobs):
        return int(reference)
    fitting = [job for job, name in enumerate(names) if reference and name.startswith(reference)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise RunNotFoundError(
            f"'{reference}' is the beginning of {len(fitting)} job names of run '{opened.card.id}': "
            + first_names([names[job] for job in fitting]),
            hint=_longer_name_hint(opened.reference, jobs, reference),
        )
    raise RunNotFoundError(
        f"run '{opened.card.id}' has no job '{reference}'", hint=_hint(opened.card.id, jobs, reference)
    )


def find_jobs_of_labels(opened: OpenRun, jobs: JobTable, labels: Collection[str]) -> list[int]:
    """Return the numbers of jobs of some labels; raises `RunNotFoundError` for an unknown label."""
    known = sorted(jobs.labels)
    for label in sorted(set(labels).difference(known)):
        hint = did_you_mean(label, known, likeness=NAME_LIKENESS) or f"It has {first_names(known)}."
        raise RunNotFoundError(f"run '{opened.card.id}' has no label '{label}'", hint=hint)
    return jobs.select(labels=labels)


def first_names(names: Sequence[str]) -> str:
    """Format the first few names and the number of the others."""
    return first_of([f"'{name}'" for name in names], _MAX_NAMES)


def _longer_name_hint(run: str, jobs: JobTable, reference: str) -> str:
    if reference in jobs.labels:
        return f"Give more of the name, or take the label: longshore logs {run} --label {shlex.quote(reference)}"
    return "Give more of the name."


def _hint(run: str, jobs: JobTable, reference: str) -> str:
    if reference in jobs.labels:
        return f"'{reference}' is a label; a job is named like '{jobs.names[jobs.select(labels=[reference])[0]]}'."
    return (
        did_you_mean(reference, _similar_names(jobs.names, reference), likeness=NAME_LIKENESS)
        or f"'longshore report {run} --json' names all jobs."
    )


def _similar_names(names: Sequence[str], reference: str) -> Iterator[str]:
    """Yield the names that share the longest prefix with an unknown name."""
    for length in range(len(reference) - 1, -1, -1):
        found = [name for name in names if name.startswith(reference[:length])]
        if found:
            yield from found[:_MAX_COMPARED]
            return
