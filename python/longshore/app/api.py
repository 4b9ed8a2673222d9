"""All use cases: what the command line does, and what Python can do, with runs, sites and configurations.

Each function imports what it needs when it is called, so that importing this module costs nothing. It is one file
because a reader wants all use cases on one page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re

    from longshore.app.configure.configuration import Configuration
    from longshore.app.configure.layers import Overrides
    from longshore.app.configure.lint import LintResult
    from longshore.app.configure.site_list import KnownSite, SiteDescription
    from longshore.app.control.restart import RestartPlan
    from longshore.app.control.resume import ResumeResult
    from longshore.app.inspect.explain_job import JobExplanation
    from longshore.app.inspect.log_text import LineMatcher
    from longshore.app.inspect.logs import LogFollower, LogList
    from longshore.app.inspect.registry import AdoptResult, ForgottenRun
    from longshore.app.inspect.run_list import RunList, RunQuery
    from longshore.app.inspect.show_job import JobDetails
    from longshore.app.progress import Progress
    from longshore.app.report.report import ReportBuilder
    from longshore.app.runs.event_log import RunEvents
    from longshore.app.runs.open_run import OpenRun
    from longshore.app.submit.stage_results import StageResult
    from longshore.app.submit.submit_once import PreparedRun, SubmittedRun
    from longshore.config.lint.explain import KeyExplanation
    from longshore.contract.context import PingReport
    from longshore.contract.intervention import Intervention, JobSelection, RestartChanges
    from longshore.model.run.picture import Drawing
    from longshore.model.run.report import JobReport, RunReport
    from longshore.model.run.submission import RunIdentity

_CANCEL_WAIT_S = 60.0
"""How long a cancelled run is watched by default."""


def submit(path: Path, overrides: Overrides | None = None, *, force: bool = False, progress: Progress) -> SubmittedRun:
    """Prepare the run that a file describes and hand it to a workload manager, or hand over a prepared run.

    Parameters
    ----------
    path
        A configuration, or the directory that `run_stages` prepared.
    overrides
        Values that win over the configuration.
    force
        Hand a prepared run over even if something it was made from has changed.
    tell
        Takes notes and progress.

    Returns
    -------
    SubmittedRun
        The run, with the notes that its user should read.

    Raises
    ------
    UsageError
        Values are given for a prepared run, or `force` for a configuration.
    LongshoreError
        The run could not be prepared or was not taken; nothing is left behind.
    """
    import os

    from longshore.errors import UsageError

    # `os.path`, unlike `Path`, has an answer for names that are too long or may not be looked at.
    if os.path.isdir(path):  # noqa: PTH112
        from longshore.app.submit.submit_prepared import submit_prepared

        if overrides:
            keys = [*overrides.options, *(pair.partition("=")[0] for pair in overrides.sets)]
            named = ", ".join(f"'{key}'" for key in keys)
            raise UsageError(
                f"'{path}' is prepared already, and {named} would have no effect",
                hint="Prepare the run again with these options, or leave them out.",
            )
        return submit_prepared(path, force=force, progress=progress)
    from longshore.app.submit import submit as implementation

    if force:
        raise UsageError("'--force' is for a directory that was prepared", hint="Leave it out.")
    return implementation.submit(path, _given(overrides), progress=progress)


def submit_script(path: Path, overrides: Overrides | None = None, *, progress: Progress) -> SubmittedRun:
    """Run one script as a job: the section ``customJob`` of a configuration.

    Parameters
    ----------
    path, overrides, tell
        As for `submit`.

    Returns
    -------
    SubmittedRun
        The run, with the notes that its user should read.

    Raises
    ------
    LongshoreError
        The run could not be prepared or was not taken; nothing is left behind.
    """
    from longshore.app.submit import submitcmd

    return submitcmd.submit_script(path, _given(overrides), progress=progress)


def prepare_script(path: Path, overrides: Overrides | None = None, *, progress: Progress) -> PreparedRun:
    """Write the run directory of one script, and stop.

    Parameters
    ----------
    path, overrides, tell
        As for `submit`.

    Returns
    -------
    PreparedRun
        The run.

    Raises
    ------
    LongshoreError
        The run could not be prepared; nothing is left behind.
    """
    from longshore.app.submit import submitcmd

    return submitcmd.prepare_script(path, _given(overrides), progress=progress)


def run_stages(
    path: Path, last: str, overrides: Overrides | None = None, *, save_graph: Path | None = None, progress: Progress
) -> tuple[list[StageResult], Path | None]:
    """Go through the stages of a run and stop before it is handed over.

    Parameters
    ----------
    path, overrides, tell
        As for `submit`.
    last
        The last stage: ``acquire``, ``cluster``, ``transform`` or ``prepare``.
    save_graph
        File for the tasks, if the last stage is ``acquire``.

    Returns
    -------
    tuple
        The result of each stage, and the run directory if there is one.

    Raises
    ------
    LongshoreError
        The run could not be prepared; nothing is left behind.
    """
    from longshore.app.submit import stage_results
    from longshore.app.submit.pipeline import Stage

    return stage_results.run_stages(path, Stage(last), _given(overrides), save_graph=save_graph, progress=progress)


def wait(run: OpenRun, show: Callable[[RunReport], None]) -> RunReport:
    """Wait until a run is over.

    Parameters
    ----------
    run
        The run.
    show
        Called with the newest report at every look.

    Returns
    -------
    RunReport
        The last report.

    Raises
    ------
    RunNotFoundError
        The run directory is gone, or cannot be read.
    """
    from longshore.app.report.wait import wait_for_end

    return wait_for_end(run, show)


def is_over(run: OpenRun, report: RunReport) -> bool:
    """Return whether a report looks final; confirm with a second look.

    Parameters
    ----------
    run
        The run.
    report
        Its newest report.
    """
    from longshore.app.report import wait as implementation

    return implementation.is_over(run, report)


def open_run(reference: str, *, service: str | None = None) -> OpenRun:
    """Open a run whose directory is on this host.

    Parameters
    ----------
    reference
        Its id, the beginning of its id, its directory, or ``@last``.
    service
        The service it must belong to, if one is named.

    Raises
    ------
    RunNotFoundError
        There is no such run, or it cannot be read.
    UnknownServiceError
        It belongs to another service.
    """
    from longshore.app.runs import open_run as implementation

    return implementation.open_run(reference, service=service)


def find_run(
    reference: str,
    *,
    service: str | None = None,
    everywhere: bool = False,
    days: float = 0.0,
    runs_only: bool = True,
) -> OpenRun | RunReport:
    """Open a run, or ask workload managers about it if its directory is on another host.

    Parameters
    ----------
    reference
        As for `open_run`, or the id that a workload manager gave it.
    service
        The service to ask; without it, all that can be asked.
    everywhere
        Search all queues of the workload manager.
    days
        Also look for runs that ended in the last so many days.
    runs_only
        Leave out jobs that are no runs.

    Returns
    -------
    OpenRun or RunReport
        The run, or what its workload manager knows of it.

    Raises
    ------
    RunNotFoundError
        Nobody knows the run.
    """
    from longshore.app.inspect.remote_runs import open_or_query

    return open_or_query(reference, service=service, everywhere=everywhere, days=days, runs_only=runs_only)


def runs(query: RunQuery) -> RunList:
    """List runs, oldest first.

    Parameters
    ----------
    query
        Which runs.

    Raises
    ------
    UsageError
        A filter cannot be understood.
    UnknownServiceError
        The service does not exist.
    """
    from longshore.app.inspect.run_list import list_runs

    return list_runs(query, now=time.time())


def parse_fields(text: str | None) -> tuple[str, ...]:
    """Return the names of fields of a run that a text lists, parted by commas.

    Parameters
    ----------
    text
        The list; without it, the columns of BPS.

    Raises
    ------
    UsageError
        A field does not exist, or none is named.
    """
    from longshore.app.inspect.fields import FIELDS, parse_fields

    return parse_fields(text) if text else tuple(FIELDS)[:9]


def field_values(report: RunReport, names: Iterable[str]) -> list[str | int | None]:
    """Return the values of fields of a run.

    Parameters
    ----------
    report
        The run.
    names
        Names of the fields, from `parse_fields`.
    """
    from longshore.app.inspect.fields import FIELDS

    return [FIELDS[name](report) for name in names]


def runs_of_user(
    user: str, *, service: str | None = None, everywhere: bool = False
) -> tuple[list[OpenRun | RunReport], tuple[str, ...]]:
    """Find the runs of a user that are not over.

    Parameters
    ----------
    user
        Name of the user.
    service
        The service to ask for runs of other hosts; without it, only known runs are found.
    everywhere
        Search all queues of workload managers.

    Returns
    -------
    tuple
        The runs, and notes on what could not be asked.
    """
    from longshore.app.control.cancel import unfinished_runs_of
    from longshore.app.inspect.remote_runs import query_runs
    from longshore.contract.search import RunSearch

    known = unfinished_runs_of(user)
    found = query_runs(service, RunSearch(user=user, everywhere=everywhere), required=everywhere)
    if found is None:
        return [*known], ()
    there = {str(run.run.root) for run in known}
    return [*known, *(report for report in found.reports if report.path not in there)], found.notes


def status(run: OpenRun) -> RunReport:
    """Return the state of a run and the number of its jobs per state.

    Parameters
    ----------
    run
        The run.

    Raises
    ------
    RunUnreadableError
        Its directory is damaged.
    """
    from longshore.app.report.status import status_run

    return status_run(run)


def report(run: OpenRun, *, details: bool = False, now: float | None = None) -> RunReport:
    """Return the state of a run with its summary.

    Parameters
    ----------
    run
        The run.
    details
        Include every job.
    now
        Time of the report, in seconds since the epoch; the clock's by default.

    Raises
    ------
    RunUnreadableError
        Its directory is damaged.
    """
    from longshore.app.report.report import report_run

    return report_run(run, details=details, now=now)


def report_builder(run: OpenRun) -> ReportBuilder:
    """Return a builder of reports that reads only what is new each time.

    Parameters
    ----------
    run
        The run.
    """
    from longshore.app.report import report as implementation

    return implementation.ReportBuilder(run)


def jobs(run: OpenRun) -> Sequence[JobReport]:
    """Return the state of every job of a run, in the order of the workflow.

    Parameters
    ----------
    run
        The run.

    Raises
    ------
    RunUnreadableError
        Its directory is damaged.
    """
    return report(run, details=True).jobs or ()


def job_names(run: OpenRun) -> Iterator[tuple[str, str]]:
    """Read the name and the label of each job, in the order of the workflow.

    Parameters
    ----------
    run
        The run.

    Yields
    ------
    tuple of str
        Name and label.

    Raises
    ------
    RunUnreadableError
        The workflow cannot be read.
    """
    from longshore.engine.rundir import job_table

    return job_table.job_names(run.run)


def job_name_lookup(run: OpenRun) -> Callable[[int], tuple[str, str]]:
    """Return a function that gives the name and the label of a job by its index.

    Parameters
    ----------
    run
        The run.
    """
    from longshore.app.runs.open_run import map_index_errors
    from longshore.engine.rundir.job_table import JobTable

    table = JobTable(run.run, "names")

    def name_of(job: int) -> tuple[str, str]:
        with map_index_errors(run.run):
            return table.names[job], table.label(job)

    return name_of


def events(run: OpenRun, *, since: str | None = None) -> RunEvents:
    """Return the events of a run, each with its mark; `RunEvents.follow` goes on as more happens.

    Parameters
    ----------
    run
        The run.
    since
        Mark of an event: only later ones are given.

    Raises
    ------
    UsageError
        The mark cannot be understood.
    """
    from longshore.app.runs import event_log

    return event_log.RunEvents(run, since=since)


def logs(
    run: OpenRun,
    *,
    job: str | None = None,
    labels: Sequence[str] = (),
    failed: bool = False,
    attempt: int | None = None,
    most: int | None = None,
) -> LogList:
    """Find the logs of one job or of several, in the order of the workflow.

    Parameters
    ----------
    run
        The run.
    job
        One job: its name, the unique beginning of it, or its index.
    labels
        The jobs of these labels.
    failed
        Only jobs that failed.
    attempt
        Number of the attempt; the newest with a log by default.
    most
        Number of logs to give at most.

    Raises
    ------
    RunNotFoundError
        There is no such job, label or attempt, or the one job has no log.
    """
    from longshore.app.inspect.logs import find_logs

    return find_logs(run, job=job, labels=labels, failed=failed, attempt=attempt, most=most)


def read_log(path: Path, *, tail: int | None = None, pattern: re.Pattern[bytes] | None = None) -> Iterator[bytes]:
    """Yield the text of a log in pieces, or the lines that match a pattern.

    Parameters
    ----------
    path
        The log.
    tail
        Only that many lines from its end.
    pattern
        Yield each matching line, without its line feed; see `compile_pattern`.

    Raises
    ------
    RunNotFoundError
        The log does not exist.
    RunUnreadableError
        It cannot be read, or is no file.
    """
    import os

    from longshore.app.inspect.log_text import matching_lines, open_log, read_chunks, tail_offset

    file = open_log(path)
    try:
        begin = 0 if tail is None else tail_offset(file, tail)
        yield from read_chunks(file, begin) if pattern is None else matching_lines(file, pattern, begin)
    finally:
        os.close(file)


def follow_log(run: OpenRun, job: str, *, tail: int | None = None) -> LogFollower:
    """Return what follows the logs of a job, attempt after attempt, until the job is over.

    Parameters
    ----------
    run
        The run.
    job
        The job: its name, the unique beginning of it, or its index.
    tail
        Number of lines to begin with; all by default.

    Raises
    ------
    RunNotFoundError
        There is no such job.
    """
    from longshore.app.inspect import logs as implementation

    return implementation.LogFollower(run, job, tail=tail)


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Return a regular expression for the bytes of logs.

    Parameters
    ----------
    text
        The expression.

    Raises
    ------
    UsageError
        It is no regular expression.
    """
    from longshore.app.inspect.log_text import compile_pattern

    return compile_pattern(text)


def line_matcher(pattern: re.Pattern[bytes]) -> LineMatcher:
    """Return what finds matching lines in text that comes in pieces.

    Parameters
    ----------
    pattern
        The pattern; see `compile_pattern`.
    """
    from longshore.app.inspect import log_text

    return log_text.LineMatcher(pattern)


def explain(run: OpenRun, job: str) -> JobExplanation:
    """Explain why a job is in its state.

    Parameters
    ----------
    run
        The run.
    job
        The job: its name, the unique beginning of it, or its index.

    Raises
    ------
    RunNotFoundError
        There is no such job.
    """
    from longshore.app.inspect.explain_job import explain_job

    return explain_job(run, job)


def show_job(run: OpenRun, job: str, *, attempt: int | None = None) -> JobDetails:
    """Return what exactly an attempt of a job runs.

    Parameters
    ----------
    run
        The run.
    job
        The job: its name, the unique beginning of it, or its index.
    attempt
        Number of the attempt; the newest by default.

    Raises
    ------
    RunNotFoundError
        There is no such job or attempt.
    """
    from longshore.app.inspect import show_job as implementation

    return implementation.show_job(run, job, attempt=attempt)


def draw_run(reference: str, *, job: str | None = None, depth: int = 1) -> Drawing:
    """Draw the labels of a run, or the jobs near one job.

    Parameters
    ----------
    reference
        The run, as for `open_run`.
    job
        The job; all labels by default.
    depth
        Number of steps before and after the job.

    Raises
    ------
    RunNotFoundError
        There is no such run or job.
    """
    from longshore.app.inspect import draw

    return draw.draw_run(reference, job=job, depth=depth)


def draw_configuration(path: Path, overrides: Overrides | None = None, *, progress: Progress) -> Drawing:
    """Draw the labels of the jobs that a configuration would make.

    Parameters
    ----------
    path, overrides, tell
        As for `submit`.

    Raises
    ------
    LongshoreError
        The configuration is wrong, or making its graph would leave files behind.
    """
    from longshore.app.inspect import draw

    return draw.draw_configuration(path, _given(overrides), progress=progress)


def cancel(
    run: OpenRun | RunReport,
    selection: JobSelection,
    *,
    runs_only: bool = True,
    wait_s: float = _CANCEL_WAIT_S,
    show: Callable[[RunReport], None] = lambda _report: None,
) -> RunReport:
    """Cancel a run, or some of its jobs, and watch it end.

    Parameters
    ----------
    run
        The run, from `find_run`.
    selection
        Which jobs.
    runs_only
        Leave a job alone that is no run, if the directory of the run is on another host.
    wait_s
        Seconds to watch.
    show
        Called with the newest report at every look.

    Returns
    -------
    RunReport
        The last report; its notes name what is still alive.

    Raises
    ------
    RunNotFoundError
        The run has no job or label of a name that is selected.
    UsageError
        Some jobs of a run are selected whose directory is on another host.
    """
    from longshore.app.control import cancel as implementation
    from longshore.errors import UsageError
    from longshore.model.run.report import RunReport
    from longshore.model.run.state import TERMINAL_STATES

    if not isinstance(run, RunReport):
        return implementation.cancel(run, selection, wait_s=wait_s, show=show)
    if not selection.everything or selection.final_too:
        raise UsageError(f"only the whole of '{run.id}' can be cancelled: its directory is not here")
    if run.state in TERMINAL_STATES:
        return run
    return implementation.cancel_remote(
        run, pass_thru=selection.pass_thru, runs_only=runs_only, wait_s=wait_s, show=show
    )


def plan_restart(run: OpenRun, changes: RestartChanges) -> RestartPlan:
    """Find out what a restart would run.

    Parameters
    ----------
    run
        The run.
    changes
        What the restart does differently.

    Raises
    ------
    RunNotFoundError
        The run has no job or label of a name that is given.
    SubmissionRefusedError
        The run is still running, or nothing that is named runs again.
    """
    from longshore.app.control import restart as implementation

    return implementation.plan_restart(run, changes)


def restart(run: OpenRun, plan: RestartPlan) -> tuple[RunIdentity, list[str]]:
    """Run again what did not succeed, in the same run directory.

    Parameters
    ----------
    run
        The run.
    plan
        What runs again, from `plan_restart`.

    Returns
    -------
    tuple
        The run's card with the new submission, and notes for the user.

    Raises
    ------
    SubmissionRefusedError
        The run is still running, has nothing to run again, or was not taken.
    """
    from longshore.app.control import restart as implementation

    return implementation.restart(run, plan.changes)


def resume(run: OpenRun, *, take_over: bool = False, force: bool = False) -> ResumeResult:
    """Start another engine for a run whose engine died.

    Parameters
    ----------
    run
        The run.
    take_over
        Even if the engine seems to live: it, or its host, is gone for good.
    force
        Even if the last engines died without achieving anything.

    Raises
    ------
    SubmissionRefusedError
        The engine is alive, or no other could be started.
    """
    from longshore.app.control import resume as implementation

    return implementation.resume(run, take_over=take_over, force=force)


def resume_all() -> list[tuple[OpenRun, ResumeResult]]:
    """Resume every known run that lost its engine.

    Returns
    -------
    list
        Each run with what became of it.
    """
    from longshore.app.control import resume as implementation

    return implementation.resume_all()


def steer(run: OpenRun, intervention: Intervention) -> RunReport:
    """Change a live run: pause, throttle, hold or release jobs, or set what they request.

    Parameters
    ----------
    run
        The run.
    intervention
        What changes; see `parse_settings` for its values.

    Returns
    -------
    RunReport
        The state of the run, with notes for the user.

    Raises
    ------
    RunNotFoundError
        The run has no job or label of a name that is selected.
    SubmissionRefusedError
        Every selected job is over, or the whole run is.
    """
    from longshore.app.control import steer as implementation

    return implementation.steer(run, intervention)


def parse_settings(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """Check ``KEY=VALUE`` pairs for `Intervention.set` and `RestartChanges.set`.

    Parameters
    ----------
    pairs
        The pairs.

    Raises
    ------
    UsageError
        A text is no pair, or its key cannot be set.
    ConfigError
        A value does not fit its key.
    """
    from longshore.app.control.steer import parse_settings

    return parse_settings(pairs)


def adopt(paths: Iterable[Path]) -> list[AdoptResult]:
    """Register runs that came from elsewhere.

    Parameters
    ----------
    paths
        Run directories, or directories above them.

    Returns
    -------
    list
        What became of each directory.
    """
    from longshore.app.inspect import registry

    return registry.adopt(paths)


def forget(reference: str, *, force: bool = False) -> ForgottenRun:
    """Remove a run from the registry; its directory stays.

    Parameters
    ----------
    reference
        The run, as for `open_run`.
    force
        Even if it is still running.

    Raises
    ------
    RunNotFoundError
        No such run is known.
    SubmissionRefusedError
        It is still running.
    """
    from longshore.app.inspect.registry import forget_run

    return forget_run(reference, force=force)


def known_runs() -> list[tuple[str, str]]:
    """Return id and name of every known run, the newest first."""
    from longshore.world.runs.registry import read_entries

    known = sorted(read_entries(), key=lambda entry: (entry.created_at, entry.id), reverse=True)
    return [(entry.id, entry.name) for entry in known]


def configuration(path: Path, overrides: Overrides | None = None) -> Configuration:
    """Return the configuration that a submission would have.

    Parameters
    ----------
    path, overrides
        As for `submit`.

    Raises
    ------
    ConfigError
        The configuration cannot be read, or its site is wrong.
    """
    from longshore.app.configure.configuration import read_draft

    return read_draft(path, _given(overrides), now=time.time())


def explain_values(
    configuration: Configuration,
    keys: Iterable[str],
    *,
    current: Mapping[str, str] | None = None,
    given: Iterable[str] = (),
) -> dict[str, KeyExplanation]:
    """Search for keys of a configuration, and explain how each value came about.

    Parameters
    ----------
    configuration
        The configuration.
    keys
        The keys.
    current
        BPS's current values that choose sections, such as ``curr_pipetask``.
    given
        ``NAME=VALUE`` of further values.

    Raises
    ------
    UsageError
        A pair cannot be understood.
    """
    from longshore.app.configure.configuration import explain_keys

    return explain_keys(configuration, keys, current=current or {}, given=given)


def lint(path: Path, overrides: Overrides | None = None) -> LintResult:
    """Find everything that is wrong with a configuration, or likely to be.

    Parameters
    ----------
    path, overrides
        As for `submit`.
    """
    from longshore.app.configure.lint import lint_file

    return lint_file(path, _given(overrides), now=time.time())


def configuration_schema() -> dict[str, Any]:
    """Return the JSON Schema of configurations."""
    from longshore.app.configure import schemas

    return schemas.configuration_schema()


def write_starter(kind: str, folder: Path) -> tuple[list[Path], str]:
    """Write a commented configuration to start from; nothing is overwritten.

    Parameters
    ----------
    kind
        ``pipeline``, ``script``, ``lsst`` or ``site``.
    folder
        Directory for the files.

    Returns
    -------
    tuple
        The files, and the command to type next.

    Raises
    ------
    FilesError
        A file exists already or cannot be written.
    """
    from longshore.app.configure.init import NEXT_COMMANDS, write_starter_files

    written = write_starter_files(kind, folder)
    return written, NEXT_COMMANDS[kind].format(path=written[0])


def sites(site_path: Sequence[str] = ()) -> list[KnownSite]:
    """List all sites, in the order of their names.

    Parameters
    ----------
    site_path
        Directories to search first.

    Raises
    ------
    UsageError
        A directory does not exist.
    ConfigError
        The configuration of this machine or user is wrong.
    """
    from longshore.app.configure.site_list import list_sites

    return list_sites(site_path)


def site(name: str, site_path: Sequence[str] = ()) -> SiteDescription:
    """Return a site with all it inherits.

    Parameters
    ----------
    name
        Name of the site.
    site_path
        Directories to search first.

    Raises
    ------
    UsageError
        A directory does not exist.
    ConfigError
        There is no such site, or its profile is wrong.
    """
    from longshore.app.configure.site_list import show_site

    return show_site(name, site_path)


def services() -> list[str]:
    """Return the short names of all services."""
    from longshore.app.configure.service_lookup import service_names

    return service_names()


def ping(service: str | None = None, *, path: Path | None = None) -> PingReport:
    """Ask a workload manager whether it can be used.

    Parameters
    ----------
    service
        Its service; the environment's choice by default, then the default service.
    path
        A configuration with settings of the service.

    Raises
    ------
    UnknownServiceError
        There is no such service.
    """
    from longshore.app.configure import ping as implementation

    return implementation.ping(service, path=path, now=time.time())


def drive(run: OpenRun, by: str) -> None:
    """Be the engine of a run until it is over.

    Parameters
    ----------
    run
        The run.
    by
        Command that starts the engine, such as ``resume``.

    Raises
    ------
    UsageError
        Its service has no engine of Longshore's.
    """
    from longshore.engine.run.service import EngineService
    from longshore.errors import UsageError

    if not isinstance(run.service, EngineService):
        raise UsageError(f"runs of the service '{run.card.service}' have no engine of ours")
    run.service.drive(run.run, by)


def _given(overrides: Overrides | None) -> Overrides:
    from longshore.app.configure.layers import NO_OVERRIDES

    return overrides or NO_OVERRIDES
