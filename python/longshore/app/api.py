"""Python interface of Longshore: every use case of the command line, as a typed function.

Each function imports its implementation when it is called, so that importing this module is cheap.

Parameters that several functions share are described here:

path
    A configuration file.
overrides
    Values with priority over the configuration.
progress
    Receives notes and progress messages.
reference
    A run: its id, a unique beginning of it, its directory, or ``@last``.
run
    A run from `open_run` or `find_run`.
job
    A job: its name, a unique beginning of it, or its index.
show
    Called with the newest report at every poll.
site_path
    Directories of site profiles that are searched first.

Every error is a `LongshoreError`. Functions that read a run raise `RunUnreadableError` if its directory is damaged.
Functions that take names of jobs or labels raise `RunNotFoundError` if the run has none of that name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from contextlib import AbstractContextManager

    from longshore.app.changes.compare import RunComparison
    from longshore.app.changes.reuse import ReusePlan
    from longshore.app.configure.configuration import Configuration
    from longshore.app.configure.layers import Overrides
    from longshore.app.configure.lint import LintResult
    from longshore.app.configure.site_list import KnownSite, SiteDescription
    from longshore.app.dashboard.server import DashboardServer
    from longshore.app.inspect.log_text import LineMatcher
    from longshore.app.inspect.logs import LogFollower, LogList
    from longshore.app.inspect.registry import AdoptResult, ForgottenRun
    from longshore.app.inspect.run_list import RunList, RunQuery
    from longshore.app.inspect.trust import RunContents
    from longshore.app.job.job_details import JobDetails
    from longshore.app.job.job_explanation import JobExplanation
    from longshore.app.progress import Progress
    from longshore.app.report.report import ReportBuilder
    from longshore.app.runs.event_log import RunEvents
    from longshore.app.runs.open_run import OpenRun
    from longshore.app.site.check_site import SiteCheck
    from longshore.app.site.write_profile import NewProfile
    from longshore.app.statistics.request_advice import RequestAdvice
    from longshore.app.statistics.run_statistics import RunStatistics
    from longshore.app.submit.stage_results import StageResult
    from longshore.app.submit.submission_checks import SubmissionChecks
    from longshore.app.submit.submit_once import PreparedRun, SubmittedRun
    from longshore.app.verify.verify import VerifyResult
    from longshore.config.explain import KeyExplanation
    from longshore.config.merge import Node
    from longshore.contract.context import PingReport
    from longshore.contract.intervention import Intervention, JobSelection, RestartChanges
    from longshore.control.archive import ArchiveResult
    from longshore.control.clean import CleanPlan, CleanResult
    from longshore.control.doctor import Diagnosis
    from longshore.control.notifier import NoticeTrial
    from longshore.control.restart import RestartPlan
    from longshore.control.resume import ResumeResult
    from longshore.model.run.picture import Drawing
    from longshore.model.run.report import JobReport, RunReport
    from longshore.model.run.submission import RunIdentity
    from longshore.model.sites.site_decision import SiteDecision
    from longshore.model.sites.site_state import SiteState
    from longshore.model.values import JsonSchema
    from longshore.model.workflow.request import Request

_CANCEL_WAIT_S = 60.0
"""Seconds for which a cancelled run is watched by default."""


# ------------------------------------------------------------------------------------------------------------- submit


def submission_checks(
    *, strict: bool = False, with_probe: bool = True, shares_outputs: bool = False
) -> SubmissionChecks:
    """Return the checks before a submission; `SubmissionChecks` documents the parameters."""
    from longshore.app.submit.submission_checks import SubmissionChecks

    return SubmissionChecks(strict=strict, with_probe=with_probe, shares_outputs=shares_outputs)


def submit(
    path: Path,
    overrides: Overrides | None = None,
    *,
    force: bool = False,
    checks: SubmissionChecks | None = None,
    progress: Progress,
) -> SubmittedRun:
    """Prepare a run from a configuration and submit it, or submit a prepared run.

    Parameters
    ----------
    path
        A configuration file, or a run directory that `run_stages` prepared.
    force
        Submit a prepared run even if its inputs changed.
    checks
        What may refuse a configuration; without any, a workload manager that does not take it.

    Raises
    ------
    UsageError
        `overrides` or strict `checks` are given for a prepared run, or `force` for a configuration.
    LongshoreError
        The run cannot be prepared, or is refused; nothing is left behind.
    """
    from longshore.app.progress import hidden_secrets
    from longshore.app.submit import submit as implementation
    from longshore.world.runs.find_run import recorded_refusal

    with recorded_refusal(), hidden_secrets():
        return implementation.submit(path, overrides, force=force, checks=checks, progress=progress)


def submit_reusing(
    path: Path,
    overrides: Overrides | None,
    reference: str,
    *,
    by_content: bool = False,
    dry_run: bool = False,
    checks: SubmissionChecks | None = None,
    progress: Progress,
) -> ReusePlan:
    """Submit a configuration as a new run that keeps the up-to-date results of an earlier one.

    Parameters
    ----------
    by_content
        Compare input files by their content, and record it, instead of size and time.
    dry_run
        Only match the jobs.
    checks
        What may refuse a configuration; without any, a workload manager that does not take it.

    Raises
    ------
    LongshoreError
        The run cannot be prepared, or is refused; nothing is left behind.
    """
    from longshore.app.changes import reuse as implementation
    from longshore.app.progress import hidden_secrets
    from longshore.world.runs.find_run import recorded_refusal

    with nullcontext() if dry_run else recorded_refusal(), hidden_secrets():
        return implementation.submit_reusing(
            path,
            overrides,
            reference,
            by_content=by_content,
            dry_run=dry_run,
            checks=checks,
            progress=progress,
        )


def submit_script(
    path: Path,
    overrides: Overrides | None = None,
    *,
    with_probe: bool = True,
    shares_outputs: bool = False,
    progress: Progress,
) -> SubmittedRun:
    """Run one script as a job, from the section ``customJob`` of a configuration.

    Parameters
    ----------
    with_probe
        Ask the workload manager first, and refuse a configuration whose site does not take runs.
    shares_outputs
        A live run of this user may write the same files.

    Raises
    ------
    LongshoreError
        The run cannot be prepared, or is refused; nothing is left behind.
    """
    from longshore.app.progress import hidden_secrets
    from longshore.app.submit import submitcmd
    from longshore.world.runs.find_run import recorded_refusal

    with recorded_refusal(), hidden_secrets():
        return submitcmd.submit_script(
            path, overrides, with_probe=with_probe, shares_outputs=shares_outputs, progress=progress
        )


def prepare_script(path: Path, overrides: Overrides | None = None, *, progress: Progress) -> PreparedRun:
    """Write the run directory for one script, without submission.

    Raises
    ------
    LongshoreError
        The run cannot be prepared; nothing is left behind.
    """
    from longshore.app.progress import hidden_secrets
    from longshore.app.submit import submitcmd

    with hidden_secrets():
        return submitcmd.prepare_script(path, overrides, progress=progress)


def run_stages(
    path: Path, last: str, overrides: Overrides | None = None, *, save_graph: Path | None = None, progress: Progress
) -> tuple[list[StageResult], Path | None]:
    """Run the stages of a submission up to one before ``submit``.

    Parameters
    ----------
    last
        The last stage: ``acquire``, ``cluster``, ``transform`` or ``prepare``.
    save_graph
        Graph file to write, if the last stage is ``acquire``.

    Returns
    -------
    tuple
        The result of each stage; and the run directory, if one was written or holds a quantum graph.

    Raises
    ------
    LongshoreError
        A stage fails; nothing is left behind.
    """
    from longshore.app.progress import hidden_secrets
    from longshore.app.submit import stage_results
    from longshore.app.submit.stages import Stage

    with hidden_secrets():
        return stage_results.run_stages(path, Stage(last), overrides, save_graph=save_graph, progress=progress)


def drive(run: OpenRun, by: str) -> None:
    """Run the engine of a run in this process until the run is over.

    Parameters
    ----------
    by
        Command that starts the engine, such as ``resume``.

    Raises
    ------
    UsageError
        The run's service does not use Longshore's engine.
    """
    from longshore.engine.run.engine_service import EngineService
    from longshore.errors import UsageError

    if not isinstance(run.service, EngineService):
        raise UsageError(f"runs of the service '{run.card.service}' have no engine of ours")
    run.service.drive(run.run, by)


def await_run(service: str) -> list[str] | None:
    """Wait, as an engine on standby, for the words with which this process goes on; ``None`` if it is not needed.

    Parameters
    ----------
    service
        The service whose engine is imported meanwhile.

    Raises
    ------
    UsageError
        No command started this process as a standby.
    """
    from longshore.app.configure.service_lookup import find_service
    from longshore.app.runs import open_run as _  # noqa: F401 - what follows needs it
    from longshore.engine.run.engine_service import EngineService
    from longshore.errors import UsageError
    from longshore.world.processes.standby import await_words

    found = find_service(service)
    if isinstance(found, EngineService):
        found.import_engine()
    try:
        return await_words()
    except OSError as error:
        raise UsageError("'--standby' is for the command that submits a run", hint="Leave it out.") from error


# ---------------------------------------------------------------------------------------------------------- find runs


def open_run(reference: str, *, service: str | None = None, acts: bool = False) -> OpenRun:
    """Open a run whose directory is on this host.

    Parameters
    ----------
    service
        The service that the run must belong to.
    acts
        The run is to be changed.

    Raises
    ------
    RunNotFoundError
        No such run is known, or it cannot be read.
    RunNotMeantError
        The run is to be changed, and ``@last`` may be another one than the user means.
    UnknownServiceError
        The run belongs to another service.
    """
    from longshore.app.runs import open_run as implementation

    return implementation.open_run(reference, service=service, acts=acts)


def find_run(
    reference: str,
    *,
    service: str | None = None,
    everywhere: bool = False,
    days: float = 0.0,
    runs_only: bool = True,
    acts: bool = False,
) -> OpenRun | RunReport:
    """Open a run, or query workload managers for it if its directory is on another host.

    Parameters
    ----------
    reference
        As for `open_run`, or the id that a workload manager gave the run.
    service
        The service to query; all by default.
    everywhere
        Search all queues of the workload manager.
    days
        Include runs that ended within so many days.
    runs_only
        Exclude jobs that are no runs.
    acts
        As for `open_run`.

    Raises
    ------
    RunNotFoundError
        No workload manager knows the run.
    """
    from longshore.app.inspect.remote_runs import open_or_query

    return open_or_query(reference, service=service, everywhere=everywhere, days=days, runs_only=runs_only, acts=acts)


def runs(query: RunQuery) -> RunList:
    """List runs, oldest first.

    Raises
    ------
    UsageError
        A filter is invalid.
    UnknownServiceError
        The service does not exist.
    """
    from longshore.app.inspect.run_list import list_runs

    return list_runs(query, now=time.time())


def parse_fields(text: str | None) -> tuple[str, ...]:
    """Return the run fields in a comma-separated list; without a list, the columns of BPS.

    Raises
    ------
    UsageError
        A field does not exist, or none is named.
    """
    from longshore.app.inspect.fields import FIELDS, parse_fields

    return parse_fields(text) if text else tuple(FIELDS)[:9]


def field_values(report: RunReport, names: Iterable[str]) -> list[str | int | None]:
    """Return the values of a run's fields; `names` are from `parse_fields`."""
    from longshore.app.inspect.fields import FIELDS

    return [FIELDS[name](report) for name in names]


def runs_of_user(
    user: str, *, service: str | None = None, everywhere: bool = False
) -> tuple[list[OpenRun | RunReport], tuple[str, ...]]:
    """Find the live runs of a user, with notes on workload managers that did not answer.

    Parameters
    ----------
    service
        The service to query for runs of other hosts; by default only registered runs are found.
    everywhere
        Search all queues of the workload manager.
    """
    from longshore.app.inspect.remote_runs import query_runs
    from longshore.contract.search import RunSearch
    from longshore.control.interventions import unfinished_runs_of

    known = unfinished_runs_of(user)
    found = query_runs(service, RunSearch(user=user, everywhere=everywhere), required=everywhere)
    if found is None:
        return [*known], ()
    there = {str(run.run.root) for run in known}
    return [*known, *(report for report in found.reports if report.path not in there)], found.notes


def known_runs() -> list[tuple[str, str]]:
    """Return id and name of every registered run: those submitted from this directory first, each newest first."""
    from longshore.world.runs.find_run import newest_runs
    from longshore.world.runs.registry import read_entries

    return [(entry.id, entry.name) for entry in newest_runs(read_entries())]


def is_last_meant() -> bool:
    """Whether a command that changes a run takes ``@last`` here."""
    from longshore.world.runs import find_run
    from longshore.world.runs.registry import read_entries

    return find_run.is_last_meant(list(read_entries()))


def adopt(paths: Iterable[Path]) -> list[AdoptResult]:
    """Register runs of other hosts or users.

    Parameters
    ----------
    paths
        Run directories, archives of runs, or directories above run directories.
    """
    from longshore.app.inspect import registry

    return registry.adopt(paths)


def run_contents(path: Path) -> RunContents | None:
    """Return what a run of another user would start; ``None`` for a run of this user.

    Parameters
    ----------
    path
        The run directory.
    """
    from longshore.app.inspect.trust import read_contents

    return read_contents(path)


def trust_run(contents: RunContents) -> None:
    """Trust a run of another user: commands may act on it, as long as its workflow is the one that was shown.

    Raises
    ------
    FilesError
        The user's state folder cannot be written.
    """
    from longshore.app.inspect import trust

    trust.trust_run(contents)


def forget(reference: str, *, force: bool = False) -> ForgottenRun:
    """Remove a run from the registry; its directory stays.

    Parameters
    ----------
    force
        Remove the run even if it is live.

    Raises
    ------
    RunNotFoundError
        No such run is known.
    SubmissionRefusedError
        The run is live.
    """
    from longshore.app.inspect.registry import forget_run

    return forget_run(reference, force=force)


def forget_missing_runs() -> list[ForgottenRun]:
    """Remove the runs whose directories are gone from the registry."""
    from longshore.app.inspect import registry as implementation

    return implementation.forget_missing_runs()


# ------------------------------------------------------------------------------------------------------------ notices


def send_notices(run: OpenRun, say: Callable[[str], None]) -> None:
    """Send the notices of a run as they fall due, until nothing drives it; `say` takes a line for the log.

    Raises
    ------
    ConfigError
        The run has no rules.
    RunUnreadableError
        The run cannot be read, or one of its files is not as it was submitted.
    """
    from longshore.control.notifier import watch_run

    watch_run(run, say)


def try_notices(
    name: str, overrides: Overrides, *, now: float, show: Callable[[NoticeTrial], None]
) -> Sequence[NoticeTrial]:
    """Send a test notice by each rule of a configuration file or a run; `show` receives each result.

    Raises
    ------
    ConfigError
        There are no rules, or they are wrong.
    RunNotFoundError
        `name` is no file, and no such run is known.
    """
    from longshore.control.notifier import try_notices as implementation

    return implementation(name, overrides, now=now, show=show)


# ------------------------------------------------------------------------------------------------------------- report


def status(run: OpenRun) -> RunReport:
    """Return the state of a run and its number of jobs per state."""
    from longshore.app.report.brief_report import status_run

    return status_run(run, check=True)


def report(run: OpenRun, *, details: bool = False, now: float | None = None) -> RunReport:
    """Return the state of a run with its summary.

    Parameters
    ----------
    details
        Include every job.
    now
        Time of the report in seconds since the epoch; the current time by default.
    """
    from longshore.app.report.report import report_run

    return report_run(run, details=details, now=now)


def html_report(run: OpenRun | RunReport, *, now: float | None = None, is_cell: bool = False) -> str:
    """Return the report of a run as one HTML document, which needs no other file and no network.

    Parameters
    ----------
    run
        A run, or the report of a run whose directory is on another host.
    now
        Time of the report in seconds since the epoch; the current time by default.
    is_cell
        Only what a cell of a notebook shows: state, failures, labels and timeline.
    """
    from longshore.app.page.html_page import make_run_page

    return make_run_page(run, now=now, is_cell=is_cell)


def write_html_report(run: OpenRun | RunReport, path: Path, *, now: float | None = None) -> None:
    """Write the report of a run as an HTML file, which replaces one that is there.

    Parameters
    ----------
    path
        The file.
    now
        As for `html_report`.

    Raises
    ------
    FilesError
        The file cannot be written; one that is there stays.
    """
    from longshore.app.page.write_page import write_page

    write_page(path, html_report(run, now=now))


def open_dashboard(port: int = 0) -> AbstractContextManager[DashboardServer]:
    """Open the dashboard of this user's runs on loopback: `serve_forever` of the server answers browsers.

    Parameters
    ----------
    port
        Port of 127.0.0.1; 0 for a free one.

    Raises
    ------
    UsageError
        The port is in use, or may not be used.
    """
    from longshore.app.dashboard import server

    return server.open_dashboard(port)


def render_export(run: OpenRun, form: str) -> Iterable[bytes]:
    """Return a run in a format of other programs, as parts of a text in UTF-8; the run is read at once.

    Parameters
    ----------
    form
        ``csv``, ``openmetrics`` or ``wfformat``.

    Raises
    ------
    UsageError
        There is no such format, or it has several files, as ``ro-crate`` has.
    UnreachableError
        The workload manager has the events, and does not answer.
    """
    from longshore.app.export.formats import find_format, render_run

    return render_run(run, find_format(form))


def export_run(run: OpenRun, form: str, path: Path) -> None:
    """Write a run in a format of other programs; a file that is there is replaced.

    Parameters
    ----------
    form
        As for `render_export`, or ``ro-crate``.
    path
        The file; for a crate a new directory, or an archive (``.zip``).

    Raises
    ------
    UsageError
        There is no such format.
    FilesError
        The file cannot be written; one that is there stays.
    UnreachableError
        The workload manager has the events, and does not answer.
    """
    from longshore.app.export.formats import export_run as implementation
    from longshore.app.export.formats import find_format

    implementation(run, find_format(form), path)


def report_builder(run: OpenRun) -> ReportBuilder:
    """Return a builder of repeated reports that reads only new events."""
    from longshore.app.report import report as implementation

    return implementation.ReportBuilder(run)


def wait(
    run: OpenRun, show: Callable[[RunReport], None], *, summary: bool = False, ends_at_pause: bool = False
) -> RunReport:
    """Wait until a run is over, or with `ends_at_pause` paused, and return its last report.

    Reports to `show` have a summary only with `summary`, and only where no engine writes snapshots.

    Raises
    ------
    RunNotFoundError
        The run directory was removed, or cannot be read.
    """
    from longshore.app.report.wait import wait_for_end

    return wait_for_end(run, show, summary=summary, ends_at_pause=ends_at_pause)


def is_over(run: OpenRun, report: RunReport) -> bool:
    """Tell whether the newest report looks final; confirm with a second report."""
    from longshore.app.runs import run_phase as implementation

    return implementation.is_over(run, report)


def jobs(run: OpenRun) -> Sequence[JobReport]:
    """Return the state of every job of a run, in the order of the workflow."""
    return report(run, details=True).jobs or ()


def newest_requests(run: OpenRun) -> Mapping[int, Request]:
    """Return the request of the newest attempt of each job that has one, by the number of the job.

    Raises
    ------
    RunUnreadableError
        The events of the run cannot be read.
    """
    from longshore.app.runs.event_source import event_blocks
    from longshore.app.runs.job_events import newest_requests as implementation

    return implementation(event_blocks(run))


def job_names(run: OpenRun) -> Iterator[tuple[str, str]]:
    """Yield name and label of each job, in the order of the workflow."""
    from longshore.engine.rundir import job_table

    return job_table.job_names(run.run)


def job_name_lookup(run: OpenRun) -> Callable[[int], tuple[str, str]]:
    """Return a function from the index of a job to its name and label."""
    from longshore.app.runs.open_run import map_index_errors
    from longshore.engine.rundir.job_table import JobTable

    table = JobTable(run.run, "names")

    def name_of(job: int) -> tuple[str, str]:
        with map_index_errors(run.run):
            return table.names[job], table.label(job)

    return name_of


def events(run: OpenRun, *, since: str | None = None) -> RunEvents:
    """Return the events of a run, each with its mark; `RunEvents.follow` continues with new ones.

    Parameters
    ----------
    since
        Mark of an event; only later ones are returned.

    Raises
    ------
    UsageError
        The mark is invalid.
    """
    from longshore.app.runs import event_log

    return event_log.RunEvents(run, since=since)


# --------------------------------------------------------------------------------------------------------------- jobs


def explain(run: OpenRun, job: str) -> JobExplanation:
    """Explain why a job is in its state."""
    from longshore.app.job.explain_job import explain_job

    return explain_job(run, job)


def show_job(run: OpenRun, job: str, *, attempt: int | None = None) -> JobDetails:
    """Return command, environment and request of an attempt of a job.

    Parameters
    ----------
    attempt
        Number of the attempt; the newest by default.

    Raises
    ------
    RunNotFoundError
        There is no such job or attempt.
    """
    from longshore.app.job import show_job as implementation

    return implementation.show_job(run, job, attempt=attempt)


def verify(run: OpenRun, *, progress: Progress) -> VerifyResult:
    """Check every file that a resume, restart or report of a run relies on; damage is in the result, not raised."""
    from longshore.app.verify.verify import verify_run

    return verify_run(run, progress)


def diagnose() -> Iterator[Diagnosis]:
    """Check the installation, the configuration, workload managers, runs and this machine."""
    from longshore.control import doctor as implementation

    return implementation.diagnose()


def plan_clean(
    references: Sequence[str] = (),
    *,
    kinds: Sequence[str] = ("caches", "logs", "temporary"),
    older_than_s: float = 0.0,
    now: float,
) -> CleanPlan:
    """Find what can go from runs that are over, and change nothing.

    Parameters
    ----------
    references
        Names of runs; without any, all runs of this user and the user's own caches.
    kinds
        Some of ``caches``, ``logs`` and ``temporary``.
    older_than_s
        Only runs that ended at least so many seconds ago.
    now
        Seconds since the epoch.

    Raises
    ------
    SubmissionRefusedError
        A named run belongs to another user.
    """
    from longshore.control import clean as implementation
    from longshore.control.clean import RemovableKind

    chosen = tuple(map(RemovableKind, kinds))
    request = implementation.CleanRequest(references=references, kinds=chosen, older_than_s=older_than_s)
    return implementation.plan_clean(request, now=now)


def clean(plan: CleanPlan, *, now: float) -> CleanResult:
    """Remove the files of a plan and no others; `now` is recorded in the runs as the time of the removal."""
    from longshore.control import clean as implementation

    return implementation.clean(plan, now=now)


def archive(run: OpenRun, output: Path | None = None, *, remove: bool = False, progress: Progress) -> ArchiveResult:
    """Write a run that is over into one file, read it back, and compare it with the run.

    Parameters
    ----------
    output
        The archive; by default beside the run directory, with its name and ``.tar.xz``.
    remove
        Remove the run directory then; the id of the run leads to the archive.

    Raises
    ------
    SubmissionRefusedError
        The run is not over.
    FilesError
        The archive exists or cannot be written, or the run changed meanwhile.
    """
    from longshore.control.archive import archive_run

    return archive_run(run, output, remove=remove, progress=progress)


def find_runs_and_labels(
    references: Sequence[str], labels: Sequence[str] = ()
) -> tuple[Sequence[OpenRun], Sequence[str]]:
    """Open runs, and tell labels from runs: a name that is no run is a label of the runs, or of the last run.

    Parameters
    ----------
    references
        Names of runs and labels.
    labels
        Names that are labels only.

    Raises
    ------
    RunNotFoundError
        A name is neither.
    """
    from longshore.app.statistics import run_statistics as implementation

    return implementation.find_runs_and_labels(references, labels)


def statistics(run: OpenRun, *, labels: Sequence[str] = ()) -> RunStatistics:
    """Return statistics of a run's attempts: in total, per label and per host.

    Parameters
    ----------
    labels
        Only attempts of these labels.

    Raises
    ------
    UnreachableError
        The workload manager has the events, and does not answer.
    """
    from longshore.app.statistics.run_statistics import read_statistics

    return read_statistics(run, labels=labels)


def suggest_requests(
    runs: Sequence[OpenRun], *, labels: Sequence[str] = (), margin: float | None = None
) -> RequestAdvice:
    """Suggest better requests for the labels of runs, from what their attempts used.

    Parameters
    ----------
    labels
        Only suggestions for these labels.
    margin
        Factor on what was measured; by default 1.2.

    Raises
    ------
    UnreachableError
        The workload manager has the events, and does not answer.
    """
    from longshore.app.statistics.request_advice import advise_requests
    from longshore.model.workflow.request_margin import DEFAULT_MARGIN

    return advise_requests(runs, labels=labels, margin=DEFAULT_MARGIN if margin is None else margin)


def requests_yaml(advice: RequestAdvice, *, over: str = "", output: Path | None = None) -> str:
    """Return the YAML that applies suggested requests.

    Parameters
    ----------
    over
        A configuration that the YAML includes, so that it wins over the values there; empty for none.
    output
        A new file to write it to as well.

    Raises
    ------
    FilesError
        `over` cannot be read, or `output` exists or cannot be written.
    """
    from longshore.app.statistics.requests_yaml import advice_yaml, included_name, write_advice

    text = advice_yaml(advice, over=included_name(over, output) if over else "")
    if output is not None:
        write_advice(output, text)
    return text


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
    labels
        Jobs of these labels.
    failed
        Only failed jobs.
    attempt
        Number of the attempt; by default the newest with a log.
    most
        Maximum number of logs.

    Raises
    ------
    RunNotFoundError
        There is no such job, label or attempt, or `job` has no log.
    """
    from longshore.app.inspect.logs import find_logs

    return find_logs(run, job=job, labels=labels, failed=failed, attempt=attempt, most=most)


def read_log(path: Path, *, tail: int | None = None, pattern: re.Pattern[bytes] | None = None) -> Iterator[bytes]:
    """Yield the text of a log in chunks, or its lines that match a pattern.

    Parameters
    ----------
    path
        The log.
    tail
        Number of lines at its end to read; all by default.
    pattern
        Yield each matching line without its line feed; see `compile_pattern`.

    Raises
    ------
    RunNotFoundError
        The log does not exist.
    RunUnreadableError
        The log cannot be read, or is no regular file.
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
    """Return a follower of a job's logs, attempt after attempt, until the job is over.

    Parameters
    ----------
    tail
        Number of lines to begin with; all by default.
    """
    from longshore.app.inspect import logs as implementation

    return implementation.LogFollower(run, job, tail=tail)


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a regular expression for the bytes of logs.

    Raises
    ------
    UsageError
        The expression is invalid.
    """
    from longshore.app.inspect.log_text import compile_pattern

    return compile_pattern(text)


def line_matcher(pattern: re.Pattern[bytes]) -> LineMatcher:
    """Return a matcher of lines in text that arrives in chunks; see `compile_pattern`."""
    from longshore.app.inspect import log_text

    return log_text.LineMatcher(pattern)


def draw_run(reference: str, *, job: str | None = None, depth: int = 1) -> Drawing:
    """Draw the labels of a run, or the jobs near one job.

    Parameters
    ----------
    job
        The job; all labels by default.
    depth
        Number of generations of parents and children.
    """
    from longshore.app.inspect import draw

    return draw.draw_run(reference, job=job, depth=depth)


def draw_configuration(
    path: Path, overrides: Overrides | None = None, *, imports_code: bool = False, progress: Progress
) -> Drawing:
    """Draw the labels of the jobs that a configuration describes.

    Raises
    ------
    LongshoreError
        The configuration is wrong, or its quantum graph would have to be made.
    """
    from longshore.app.inspect import draw
    from longshore.app.progress import hidden_secrets

    with hidden_secrets():
        return draw.draw_configuration(path, overrides, imports_code=imports_code, progress=progress)


# ------------------------------------------------------------------------------------------------------------ control


def cancel(
    run: OpenRun | RunReport,
    selection: JobSelection,
    *,
    runs_only: bool = True,
    wait_s: float = _CANCEL_WAIT_S,
    show: Callable[[RunReport], None] = lambda _report: None,
    tell: Callable[[str], None] = lambda _note: None,
) -> RunReport:
    """Cancel a run or some of its jobs, and watch it end.

    The notes of the returned report name what is still alive.

    Parameters
    ----------
    tell
        Receives a note before jobs are cancelled, which is among the notes of the report too.
    runs_only
        Do not cancel a job that is no run, if its directory is on another host.
    wait_s
        Seconds to watch.

    Raises
    ------
    UsageError
        Single jobs are selected in a run whose directory is on another host.
    """
    from longshore.control import interventions as implementation
    from longshore.errors import UsageError
    from longshore.model.run.report import RunReport
    from longshore.model.run.states import TERMINAL_STATES

    if not isinstance(run, RunReport):
        return implementation.cancel(run, selection, wait_s=wait_s, show=show, tell=tell)
    if not selection.everything or selection.final_too:
        raise UsageError(f"only the whole of '{run.id}' can be cancelled: its directory is not here")
    if run.state in TERMINAL_STATES:
        return run
    return implementation.cancel_remote(
        run, pass_thru=selection.pass_thru, runs_only=runs_only, wait_s=wait_s, show=show
    )


def steer(run: OpenRun, intervention: Intervention) -> RunReport:
    """Change a live run: pause, throttle, hold or release jobs, or set their requests.

    Parameters
    ----------
    intervention
        The change; `parse_changes` checks its values.

    Raises
    ------
    SubmissionRefusedError
        Every selected job is over, or the run is.
    """
    from longshore.control import interventions as implementation

    return implementation.steer(run, intervention)


def parse_changes(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """Check ``KEY=VALUE`` pairs for `Intervention.set` and `RestartChanges.set`.

    Raises
    ------
    UsageError
        A text is no pair, or its key cannot be set.
    ConfigError
        A value is invalid.
    """
    from longshore.control.interventions import parse_changes

    return parse_changes(pairs)


def split_sets(pairs: tuple[str, ...], run: OpenRun | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split ``KEY=VALUE`` pairs of a restart into those of requests, for `parse_changes`, and of the configuration.

    Parameters
    ----------
    run
        Keys of its configuration count as well, such as the user's own variables.
    """
    from longshore.app.changes.replan import recorded_keys
    from longshore.control.interventions import split_sets

    return split_sets(pairs, recorded_keys(run) if pairs and run is not None else ())


def require_control(run: OpenRun) -> None:
    """Refuse to start jobs of a run of another user that this user does not trust.

    Raises
    ------
    SubmissionRefusedError
        The run belongs to another user; the error has the owner and the way out.
    """
    from longshore.world.runs.owner import Access, require_access

    require_access(run.run, Access.ACT)


def compare_run(run: OpenRun, sets: tuple[str, ...] = (), *, new_graph: bool = False) -> RunComparison:
    """Compare the sources of a run with their present content; only changes of jobs count.

    Parameters
    ----------
    sets
        ``KEY=VALUE`` of the configuration, added to those that the run was submitted with.
    new_graph
        Make the quantum graph again, in the run directory.

    Raises
    ------
    SubmissionRefusedError
        The run is live, or a file of it changed.
    """
    from longshore.app.changes.compare import compare_run
    from longshore.app.changes.write_submission import next_folder
    from longshore.control.restart import refuse_restart

    refuse_restart(run)
    return compare_run(run, sets, graph_folder=next_folder(run.run) if new_graph else None)


def takes_changes(run: OpenRun, comparison: RunComparison, *, is_wanted: bool) -> bool:
    """Return whether a restart takes the changes of a comparison.

    Parameters
    ----------
    is_wanted
        Whether the user asks for them. Other changes are taken only if they all come from ``--set``.

    Raises
    ------
    SubmissionRefusedError
        The user asks for changes, and nothing could be compared.
    LongshoreError
        The user asks for changes, and the run could not be prepared now.
    """
    from longshore.app.changes import take_changes

    return take_changes.takes_changes(run, comparison, is_wanted=is_wanted)


def plan_restart(
    run: OpenRun, changes: RestartChanges, comparison: RunComparison | None = None, *, ignores_lost: bool = False
) -> RestartPlan:
    """Return the jobs that a restart with these changes would run.

    Parameters
    ----------
    comparison
        From `compare_run`: the restart takes the changed workflow. By default it runs the jobs as they were.
    ignores_lost
        Run jobs although outputs that they read are gone.

    Raises
    ------
    SubmissionRefusedError
        The run is live, an output that a job would read is gone, or none of the named jobs would run.
    """
    from longshore.control import restart as implementation

    return implementation.plan_restart(run, changes, comparison, ignores_lost=ignores_lost)


def restart(run: OpenRun, plan: RestartPlan, *, shares_outputs: bool = False) -> tuple[RunIdentity, list[str]]:
    """Submit the jobs that did not succeed again, in the same run directory.

    Parameters
    ----------
    shares_outputs
        Another live run of this user may write the same files.

    Returns
    -------
    tuple
        The run with the new submission, and notes for the user.

    Raises
    ------
    SubmissionRefusedError
        The run is live, has no job to run again, or is refused.
    """
    from longshore.app.progress import hidden_secrets, note_secrets
    from longshore.control import restart as implementation

    with hidden_secrets():
        note_secrets(lambda: run.secrets)
        return implementation.restart(run, plan.changes, plan.comparison, shares_outputs=shares_outputs)


def accept_loss(run: OpenRun) -> Sequence[str]:
    """Accept the loss of damaged parts of a journal, so that the run can continue.

    Returns
    -------
    Sequence
        What is lost, a sentence each; empty if the journal is intact.
    """
    from longshore.control import resume as implementation

    return implementation.accept_loss(run)


def resume(
    run: OpenRun,
    *,
    take_over: bool = False,
    force: bool = False,
    loss_accepted: bool = False,
    shares_outputs: bool = False,
) -> ResumeResult:
    """Start a new engine for a run whose engine died.

    Parameters
    ----------
    take_over
        Even if the engine seems alive: its process or host is gone for good.
    force
        Even if the last engines died without progress.
    loss_accepted
        Even if the journal is damaged: continue from what is intact, so that jobs may run again.
    shares_outputs
        Even if another live run of this user writes the same files.

    Raises
    ------
    SubmissionRefusedError
        The engine is alive, or none can be started.
    """
    from longshore.control import resume as implementation

    return implementation.resume(
        run, take_over=take_over, force=force, loss_accepted=loss_accepted, shares_outputs=shares_outputs
    )


def resume_all(on_unreadable: Callable[[str], None] = lambda _: None) -> list[tuple[OpenRun, ResumeResult]]:
    """Resume every registered run that lost its engine.

    Parameters
    ----------
    on_unreadable
        Called with a line about each run that cannot be read.
    """
    from longshore.control import resume as implementation

    return implementation.resume_all(on_unreadable)


# ------------------------------------------------------------------------------------- configuration, sites, services


def configuration(path: Path, overrides: Overrides | None = None) -> Configuration:
    """Return the configuration of a submission, to look at.

    Raises
    ------
    ConfigError
        The configuration cannot be read, or its site is wrong.
    """
    from longshore.app.configure.configuration import read_draft
    from longshore.app.configure.layers import Overrides

    overrides = overrides or Overrides()
    given = Overrides(overrides.options, overrides.sets, imports_code=False)
    return read_draft(path, given, now=time.time())


def written_values(path: Path) -> Node:
    """Return the values of a configuration and of what it includes, without those of a site.

    Raises
    ------
    ConfigError
        A file cannot be read.
    """
    from longshore.app.configure.layers import read_layers

    return read_layers(path, now=time.time()).stack.root()


def explain_values(
    configuration: Configuration,
    keys: Iterable[str],
    *,
    current: Mapping[str, str] | None = None,
    given: Iterable[str] = (),
) -> dict[str, KeyExplanation]:
    """Explain the origin of the values of keys.

    Parameters
    ----------
    current
        BPS's current values that select sections, such as ``curr_pipetask``.
    given
        ``NAME=VALUE`` of further values.

    Raises
    ------
    UsageError
        A pair is malformed, or no task has the label.
    """
    from longshore.app.configure.configuration import explain_keys
    from longshore.app.configure.payload_names import refuse_unknown_label

    refuse_unknown_label(configuration, (current or {}).get("curr_pipetask", ""))
    return explain_keys(configuration, keys, current=current or {}, given=given)


def lint(path: Path, overrides: Overrides | None = None, *, imports_code: bool = False) -> LintResult:
    """Find errors and doubtful values in a configuration or a site profile."""
    from longshore.app.progress import hidden_secrets
    from longshore.app.submit.lint_file import lint_file

    with hidden_secrets():
        return lint_file(path, overrides, imports_code=imports_code, now=time.time())


def configuration_schema() -> JsonSchema:
    """Return the JSON Schema of configurations."""
    from longshore.app.configure import schemas

    return schemas.configuration_schema()


def write_starter(kind: str, folder: Path) -> tuple[list[Path], str]:
    """Write a commented example configuration; no file is overwritten.

    Parameters
    ----------
    kind
        ``pipeline``, ``script``, ``lsst`` or ``site``.

    Returns
    -------
    tuple
        The files, and the next command to run.

    Raises
    ------
    FilesError
        A file exists or cannot be written.
    """
    from longshore.app.configure.init import NEXT_COMMANDS, write_starter_files

    written = write_starter_files(kind, folder)
    return written, NEXT_COMMANDS[kind].format(path=written[0])


def sites(site_path: Sequence[str] = ()) -> list[KnownSite]:
    """List all sites by name; a site that cannot be read is listed with its error.

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
    """Return a site with inherited values, and their origins.

    Raises
    ------
    UsageError
        A directory does not exist.
    ConfigError
        There is no such site, or its profile is wrong.
    """
    from longshore.app.configure.site_list import show_site

    return show_site(name, site_path)


def match_sites(
    path: Path, overrides: Overrides | None = None, *, seed: int | None = None, with_probe: bool = True
) -> SiteDecision:
    """Choose a site for a configuration, without a run.

    Parameters
    ----------
    path
        The configuration; without a site, all described sites are candidates.
    overrides
        Options and ``--set`` values.
    seed
        Seed of chance, instead of that of the configuration.
    with_probe
        Whether to pass over candidates whose workload manager cannot be used now.

    Raises
    ------
    ConfigError
        The configuration is wrong, or a candidate is unknown.
    """
    from longshore.app.progress import hidden_secrets
    from longshore.app.site_choice.match_sites import match_sites

    with hidden_secrets():
        return match_sites(path, overrides, seed=seed, with_probe=with_probe)


def change_site_state(name: str, pairs: Sequence[str] = (), site_path: Sequence[str] = ()) -> SiteState:
    """Set values of a site that the choice of a site may use, and return its state.

    Parameters
    ----------
    name
        Name of the site.
    pairs
        Values as ``NAME=VALUE``; ``NAME=`` removes one. Others stay.
    site_path
        Directories with profiles that are searched first.

    Raises
    ------
    ConfigError
        There is no such site.
    UsageError
        A value is malformed.
    """
    from longshore.app.site_choice.match_sites import change_site_state

    return change_site_state(name, pairs, site_path)


def services() -> list[str]:
    """Return the short names of all services."""
    from longshore.app.configure.service_lookup import service_names

    return service_names()


def check_site(name: str, site_path: Sequence[str] = ()) -> SiteCheck:
    """Check the profile of a site, and compare it with what its workload manager answers.

    Raises
    ------
    UsageError
        A directory does not exist.
    ConfigError
        There is no such site, or its profile cannot be read.
    """
    from longshore.app.site.check_site import check_site as implementation

    return implementation(name, site_path, now=time.time())


def write_profile(
    name: str, service: str | None = None, *, folder: Path | None = None, is_written: bool = True
) -> NewProfile:
    """Write a profile of a site from what its workload manager answers.

    Parameters
    ----------
    name
        Name of the site.
    service
        The service; by default the one that answers on this host.
    folder
        Directory of the profile; by default that of the user.
    is_written
        Whether a file is written; else only its text is returned.

    Raises
    ------
    UnreachableError
        No workload manager answers.
    UsageError
        Several workload managers answer, or the name is none of a site.
    FilesError
        The file exists, or cannot be written.
    """
    from longshore.app.site.write_profile import write_profile as implementation

    return implementation(name, service, folder=folder, is_written=is_written, now=time.time())


def ping(
    service: str | None = None, *, path: Path | None = None, site: str = "", site_path: Sequence[str] = ()
) -> PingReport:
    """Ask a workload manager whether it can be used.

    Parameters
    ----------
    service
        The service; by default that of the environment, else the default service.
    path
        A configuration with settings of the service.
    site
        The site whose settings of the service are used.
    site_path
        Directories with profiles of sites, searched before others.

    Raises
    ------
    UnknownServiceError
        There is no such service.
    """
    from longshore.app.site import ping as implementation

    return implementation.ping(service, path=path, site=site, site_path=site_path, now=time.time())
