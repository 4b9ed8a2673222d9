"""What is known of a job: its log (``logs``), its history (``explain``), its command and files (``show-job``)."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from longshore.cli.options import JSON, OptionRecord, WholeNumber, group_options
from longshore.cli.terminal import SafeOutput, print_json, print_notes
from longshore.errors import RunNotFoundError
from longshore.model.report import escape_controls
from longshore.model.states import STATE_EXIT_STATUS
from longshore.reports.status import status_run
from longshore.runstate.open_run import OpenRun, open_run

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from longshore.reports.logs import Log, LogList


@click.command(epilog="Example: longshore explain @last coadd_7")
@click.argument("run")
@click.argument("job")
@JSON
def explain_command(run: str, job: str, *, as_json: bool) -> None:
    """Explain why JOB waits, runs, was retried, failed or was pruned, and print its history."""
    from longshore.reports.explain import explain_job

    opened = open_run(run)
    explained = explain_job(opened, job)
    print_notes(map(str, opened.damages))
    if as_json:
        from longshore.reports.documents.job import explain_job_document

        print_json(explain_job_document(explained, damage=opened.damages))
    else:
        click.echo(explained.text)


@click.command(epilog="Example: longshore show-job @last coadd_7    or: longshore show-job @last coadd_7 --script | sh")
@click.argument("run")
@click.argument("job")
@click.option("--attempt", type=WholeNumber(min=1), metavar="N", help="Number of the attempt (default: the newest).")
@click.option("--script", is_flag=True, help="Print only a shell script that runs the job by hand.")
@JSON
def show_job_command(run: str, job: str, *, attempt: int | None, script: bool, as_json: bool) -> None:
    """Show the command, environment, request, files, parents and children of JOB."""
    from longshore.reports.show_job import show_job

    if script and as_json:
        raise click.UsageError("--script excludes --json, whose document has the script too.")
    opened = open_run(run)
    shown = show_job(opened, job, attempt=attempt)
    print_notes(map(str, opened.damages))
    if script:
        click.echo(shown.script.encode("utf-8", "surrogateescape"), nl=False)
    elif as_json:
        from longshore.reports.documents.job import job_document

        print_json(job_document(shown, damage=opened.damages, as_of=time.time()))
    else:
        click.echo(shown.text)


_DEFAULT_MAX_LOGS: Final = 20


class LogOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: which logs to print, and which parts of them."""

    labels: tuple[str, ...]
    failed: bool
    attempt: int | None
    tail: int | None
    follow: bool
    grep: str | None
    most: int | None
    paths: bool
    raw: bool
    as_json: bool

    @property
    def is_for_several_jobs(self) -> bool:
        """Whether logs of several jobs are requested."""
        return bool(self.labels or self.failed)

    @property
    def max_logs(self) -> int | None:
        """Maximum number of logs to print; ``None`` for no maximum."""
        is_limited = self.grep is None and not self.paths and not self.as_json
        return _DEFAULT_MAX_LOGS if is_limited and self.most is None else self.most or None


@click.command(epilog="Example: longshore logs @last calibrate_103 --tail 20    or: longshore logs @last --failed")
@click.argument("run")
@click.argument("job", required=False)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="All jobs of that label. Can be repeated.")
@click.option("--failed", is_flag=True, help="All failed jobs (with --label: of those labels).")
@click.option(
    "--attempt", type=WholeNumber(min=1), metavar="N", help="Number of the attempt (default: the newest with a log)."
)
@click.option("--tail", type=WholeNumber(min=0), metavar="N", help="Only the last N lines.")
@click.option(
    "--follow", "-f", is_flag=True, help="Continue as the log grows, through all attempts, until JOB is over."
)
@click.option("--grep", metavar="REGEX", help="Only lines that match, each with the name of its job.")
@click.option(
    "--most",
    type=WholeNumber(min=0),
    metavar="N",
    help=f"Maximum number of logs (default {_DEFAULT_MAX_LOGS}, or all with --grep, --paths or --json; 0: all).",
)
@click.option("--paths", is_flag=True, help="Print the paths of the logs only.")
@click.option("--raw", is_flag=True, help="Do not escape control characters.")
@JSON
@group_options(options=LogOptions)
@click.pass_context
def logs_command(ctx: click.Context, /, *, run: str, job: str | None, options: LogOptions) -> None:
    """Print the log of JOB (its name, the beginning of its name, or its number), or of several jobs."""
    from longshore.reports.logs import compile_pattern

    _check_options(job, options)
    pattern = compile_pattern(options.grep) if options.grep is not None else None
    opened = open_run(run)
    output = SafeOutput(raw=options.raw)
    if options.follow:
        assert job is not None
        ctx.exit(_follow_log(opened, job, output, tail=options.tail, pattern=pattern))
    _print_logs(opened, job, output, pattern, options)


def _check_options(job: str | None, options: LogOptions) -> None:
    if bool(job) == options.is_for_several_jobs:
        raise click.UsageError(
            "Name one job, as in 'longshore logs @last JOB', or use --label LABEL, --failed or both."
        )
    if options.follow and (options.is_for_several_jobs or options.attempt or options.paths or options.as_json):
        raise click.UsageError("--follow requires one JOB, and excludes --attempt, --paths and --json.")
    if options.paths and (options.as_json or options.tail is not None or options.grep is not None):
        raise click.UsageError("--paths excludes --tail, --grep and --json; --json gives the paths too.")


def _print_logs(
    opened: OpenRun, job: str | None, output: SafeOutput, pattern: re.Pattern[bytes] | None, options: LogOptions
) -> None:
    from longshore.reports.logs import find_logs

    found = find_logs(
        opened,
        job=job,
        labels=options.labels,
        failed=options.failed,
        attempt=options.attempt,
        most=options.max_logs,
    )
    print_notes(map(str, opened.damages))
    if options.as_json:
        _print_json(opened, found, tail=options.tail, pattern=pattern)
        return
    for log in found.logs:
        if options.paths:
            output.write_line(str(log.path))
        elif pattern:
            _write_lines(log.job, _read_log(log, tail=options.tail, pattern=pattern), output)
        else:
            if found.has_several_jobs:
                output.write_line(_log_header(log.job, log.attempt, str(log.path)))
            _print_log(log, output, tail=options.tail, is_for_several_jobs=found.has_several_jobs)
    output.flush()
    print_notes(found.notes)


def _log_header(job: str, attempt: int, path: str = "") -> str:

    return escape_controls(" ".join(filter(None, ["==>", f"{job}, attempt {attempt}", path, "<=="])))


def _print_log(log: Log, output: SafeOutput, *, tail: int | None, is_for_several_jobs: bool) -> None:
    for chunk in _read_log(log, tail=tail, is_for_several_jobs=is_for_several_jobs):
        output.write(chunk)
    output.write(b"", last=True)
    if is_for_several_jobs:
        output.end_line()


def _read_log(
    log: Log, *, tail: int | None, pattern: re.Pattern[bytes] | None = None, is_for_several_jobs: bool = True
) -> Iterator[bytes]:
    """Read a log; among several, one that cannot be read does not stop the others."""
    from longshore.reports.logs import read_log

    try:
        yield from read_log(log.path, tail=tail, pattern=pattern)
    except RunNotFoundError as error:
        if not is_for_several_jobs:
            raise
        click.echo(f"longshore: {error.message}", err=True)


def _print_json(opened: OpenRun, found: LogList, *, tail: int | None, pattern: re.Pattern[bytes] | None) -> None:
    from longshore.reports.documents.job import logs_pieces

    lines = None if pattern is None and tail is None else partial(_lines_as_text, pattern=pattern, tail=tail)
    pieces = logs_pieces(opened.card.id, found.logs, lines, notes=found.notes, damage=opened.damages, as_of=time.time())
    if sys.stdout:
        # A log may be larger than memory, and there may be a hundred thousand of them.
        sys.stdout.writelines(pieces)


def _lines_as_text(log: Log, *, pattern: re.Pattern[bytes] | None, tail: int | None) -> Iterator[str]:
    import re
    from collections import deque

    lines: Iterable[bytes] = _read_log(log, tail=tail, pattern=pattern or re.compile(b""))
    if tail is not None:
        # A line of gigabytes comes in pieces that count as lines: memory stays bounded by the requested tail.
        lines = deque(lines, maxlen=tail)
    return (line.decode("utf-8", "backslashreplace") for line in lines)


class _FollowedLog:
    """Output of a log that is followed."""

    def __init__(self, job: str, output: SafeOutput, pattern: re.Pattern[bytes] | None) -> None:
        from longshore.reports.logs import LineMatcher

        self._job = job
        self._output = output
        self._matcher = LineMatcher(pattern) if pattern else None
        self.has_started = False

    def attempt(self, number: int) -> None:
        """Begin another attempt."""
        self.end()
        if self.has_started and not self._matcher:
            self._output.end_line()
            self._output.write_line(_log_header(self._job, number))
        self.has_started = True

    def text(self, chunk: bytes) -> None:
        """Write more text."""
        if self._matcher:
            _write_lines(self._job, self._matcher.take(chunk), self._output)
        else:
            self._output.write(chunk)
        self._output.flush()

    def end(self) -> None:
        """End the text of this attempt."""
        if self._matcher:
            _write_lines(self._job, self._matcher.end(), self._output)
        self._output.write(b"", last=True)
        self._output.flush()


def _write_lines(job: str, lines: Iterable[bytes], output: SafeOutput) -> None:

    name = escape_controls(job).encode("utf-8", "backslashreplace")
    for line in lines:
        output.write(b"%s: %s" % (name, line), last=True)
        output.end_line()


def _follow_log(
    opened: OpenRun, job: str, output: SafeOutput, *, tail: int | None, pattern: re.Pattern[bytes] | None
) -> int:
    from longshore.reports.logs import LogFollower

    follower = LogFollower(opened, job, tail=tail)
    followed = _FollowedLog(follower.name, output, pattern)
    for update in follower.updates():
        if update.text is None:
            followed.attempt(update.attempt)
        else:
            followed.text(update.text)
    followed.end()
    if not followed.has_started:
        click.echo(f"longshore: job '{follower.name}' has no log: none of its attempts has started", err=True)
    if not follower.is_engine_gone:
        return 0
    report = status_run(opened, check=True)
    print_notes(report.notes)
    return STATE_EXIT_STATUS[report.state]
