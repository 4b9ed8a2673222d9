"""``longshore logs``: prints, follows or searches logs of jobs."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from longshore.app import api
from longshore.cli.options import JSON, OptionRecord, group_options, print_notes

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from longshore.app.inspect.logs import Log, LogList
    from longshore.app.runs.open_run import OpenRun
    from longshore.cli.safe_output import SafeOutput

_MOST: Final = 20


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
    def several(self) -> bool:
        """Whether logs of several jobs are requested."""
        return bool(self.labels or self.failed)

    @property
    def bound(self) -> int | None:
        """Maximum number of logs to print; ``None`` for no maximum."""
        bounded = self.grep is None and not self.paths and not self.as_json
        return _MOST if bounded and self.most is None else self.most or None


@click.command(epilog="Example: longshore logs @last calibrate_103 --tail 20    or: longshore logs @last --failed")
@click.argument("run")
@click.argument("job", required=False)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="All jobs of that label. Can be repeated.")
@click.option("--failed", is_flag=True, help="All jobs that failed (with --label: of these).")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="That attempt; else the newest with a log.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on as the log grows, attempt after attempt, until JOB is over.")
@click.option("--grep", metavar="REGEX", help="Only lines that match, with the name of their job in front.")
@click.option(
    "--most",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Print that many logs at most (default {_MOST}; 0: all). --grep, --paths and --json are not bounded.",
)
@click.option("--paths", is_flag=True, help="Print where the logs are, and nothing of them.")
@click.option("--raw", is_flag=True, help="Leave escapes that a terminal obeys as they are.")
@JSON
@group_options(options=LogOptions)
@click.pass_context
def logs(ctx: click.Context, /, *, run: str, job: str | None, options: LogOptions) -> None:
    """Print the log of JOB (its name, the beginning of it, or its number), or those of several jobs."""
    from longshore.cli.safe_output import SafeOutput

    _refuse(job, options)
    pattern = api.compile_pattern(options.grep) if options.grep is not None else None
    opened = api.open_run(run)
    output = SafeOutput(raw=options.raw)
    if options.follow:
        assert job is not None
        ctx.exit(_follow(opened, job, output, tail=options.tail, pattern=pattern))
    _print(opened, job, output, pattern, options)


def _refuse(job: str | None, options: LogOptions) -> None:
    if bool(job) == options.several:
        raise click.UsageError("Name one job, as in 'longshore logs RUN JOB', or say --label LABEL, --failed or both.")
    if options.follow and (options.several or options.attempt or options.paths or options.as_json):
        raise click.UsageError("--follow goes with one JOB, and without --attempt, --paths and --json.")
    if options.paths and (options.as_json or options.tail is not None or options.grep is not None):
        raise click.UsageError("--paths goes without --tail, --grep and --json, which gives the paths too.")


def _print(
    opened: OpenRun, job: str | None, output: SafeOutput, pattern: re.Pattern[bytes] | None, options: LogOptions
) -> None:
    found = api.logs(
        opened,
        job=job,
        labels=options.labels,
        failed=options.failed,
        attempt=options.attempt,
        most=options.bound,
    )
    if options.as_json:
        _print_json(opened, found, tail=options.tail, pattern=pattern)
        return
    for log in found.logs:
        if options.paths:
            output.line(str(log.path))
        elif pattern:
            _show_lines(log.job, _read(log, tail=options.tail, pattern=pattern), output)
        else:
            if found.has_several_jobs:
                output.line(_header(log.job, log.attempt, str(log.path)))
            _print_one(log, output, tail=options.tail, several=found.has_several_jobs)
    output.flush()
    print_notes(found.notes)


def _header(job: str, attempt: int, path: str = "") -> str:
    from longshore.cli.show.format import escape_controls

    return escape_controls(" ".join(filter(None, ["==>", f"{job}, attempt {attempt}", path, "<=="])))


def _print_one(log: Log, output: SafeOutput, *, tail: int | None, several: bool) -> None:
    for piece in _read(log, tail=tail, several=several):
        output.text(piece)
    output.text(b"", last=True)
    if several:
        output.end_line()


def _read(
    log: Log, *, tail: int | None, pattern: re.Pattern[bytes] | None = None, several: bool = True
) -> Iterator[bytes]:
    """Read a log; among several, one that cannot be read does not stop the others."""
    from longshore.errors import RunNotFoundError

    try:
        yield from api.read_log(log.path, tail=tail, pattern=pattern)
    except RunNotFoundError as error:
        if not several:
            raise
        click.echo(f"longshore: {error.message}", err=True)


def _print_json(opened: OpenRun, found: LogList, *, tail: int | None, pattern: re.Pattern[bytes] | None) -> None:
    from longshore.app.documents.job import logs_pieces

    lines = None if pattern is None and tail is None else partial(_json_lines, pattern=pattern, tail=tail)
    pieces = logs_pieces(opened.card.id, found.logs, lines, notes=found.notes, as_of=time.time())
    if sys.stdout:
        # A log may be larger than memory, and there may be a hundred thousand of them.
        sys.stdout.writelines(pieces)


def _json_lines(log: Log, *, pattern: re.Pattern[bytes] | None, tail: int | None) -> Iterator[str]:
    import re
    from collections import deque

    lines: Iterable[bytes] = _read(log, tail=tail, pattern=pattern or re.compile(b""))
    if tail is not None:
        # A line of gigabytes comes in pieces that count as lines: memory stays bounded by the requested tail.
        lines = deque(lines, maxlen=tail)
    return (line.decode("utf-8", "backslashreplace") for line in lines)


class _Shown:
    """Output of a log that is followed."""

    def __init__(self, job: str, output: SafeOutput, pattern: re.Pattern[bytes] | None) -> None:
        self._job = job
        self._output = output
        self._matcher = api.line_matcher(pattern) if pattern else None
        self.began = False

    def attempt(self, number: int) -> None:
        """Begin another attempt."""
        self.end()
        if self.began and not self._matcher:
            self._output.end_line()
            self._output.line(_header(self._job, number))
        self.began = True

    def text(self, piece: bytes) -> None:
        """Write more text."""
        if self._matcher:
            _show_lines(self._job, self._matcher.take(piece), self._output)
        else:
            self._output.text(piece)
        self._output.flush()

    def end(self) -> None:
        """End the text of this attempt."""
        if self._matcher:
            _show_lines(self._job, self._matcher.end(), self._output)
        self._output.text(b"", last=True)
        self._output.flush()


def _show_lines(job: str, lines: Iterable[bytes], output: SafeOutput) -> None:
    from longshore.cli.show.format import escape_controls

    name = escape_controls(job).encode("utf-8", "backslashreplace")
    for line in lines:
        output.text(b"%s: %s" % (name, line), last=True)
        output.end_line()


def _follow(
    opened: OpenRun, job: str, output: SafeOutput, *, tail: int | None, pattern: re.Pattern[bytes] | None
) -> int:
    follower = api.follow_log(opened, job, tail=tail)
    shown = _Shown(follower.name, output, pattern)
    for update in follower.updates():
        if update.text is None:
            shown.attempt(update.attempt)
        else:
            shown.text(update.text)
    shown.end()
    if not shown.began:
        click.echo(f"longshore: job '{follower.name}' has no log: no attempt of it has begun", err=True)
    if not follower.is_engine_gone:
        return 0
    from longshore.cli.inspect.follow import end_of_following

    return end_of_following(api.status(opened))
