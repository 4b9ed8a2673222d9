"""Commands that run a run again, or continue it, as a user would type them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from longshore.config.secrets import mask_secrets
from longshore.contract.capabilities import Amendable, Restartable
from longshore.errors import LongshoreError
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.model.submission import Fingerprint
from longshore.reports.state import END_STATES
from longshore.rundir.archived_runs import UnpackCommands, unpack_commands
from longshore.rundir.run_directory import read_made_from
from longshore.runstate.open_run import READ_ERRORS, OpenRun

_NOT_DONE: Final = (JobState.FAILED, JobState.PRUNED, JobState.DELETED)
"""States of jobs that a restart runs again."""


class RerunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and what it does."""

    purpose: str
    command: str


def rerun_commands(opened: OpenRun, report: RunReport) -> Iterator[RerunCommand]:
    """Yield the commands that fit the state of a run, and the one that began it."""
    run, counts = opened.reference, report.counts
    archive = unpack_commands(opened.run)
    if archive is None:
        yield from _live_commands(opened, report)
    if counts.get(JobState.FAILED):
        yield RerunCommand(purpose="Print the logs of all failed jobs", command=f"longshore logs {run} --failed")
    if archive is not None:
        yield from _unpack_commands(archive)
    if report.state in END_STATES and any(counts.get(state) for state in _NOT_DONE):
        yield from _restart_commands(opened, archive.directory if archive else run)
    try:
        made_from = read_made_from(opened.run)
    except READ_ERRORS:
        return
    if made_from is not None:
        yield RerunCommand(purpose="Submit the same as a new run", command=_submit_command(made_from, opened.secrets))


def _live_commands(opened: OpenRun, report: RunReport) -> Iterator[RerunCommand]:
    """Yield the commands that continue, watch or steer a run that is not over."""
    run = opened.reference
    if report.state is JobState.UNKNOWN and opened.card.submissions:
        yield RerunCommand(purpose="Continue it with a new engine", command=f"longshore resume {run}")
    elif report.state not in END_STATES and opened.card.submissions:
        yield RerunCommand(purpose="Watch it", command=f"longshore report --watch {run}")
    if report.paused:
        yield RerunCommand(purpose="Start jobs again", command=f"longshore unpause {run}")
    if report.counts.get(JobState.HELD):
        yield RerunCommand(purpose="Release its held jobs", command=f"longshore release {run}")


def pause_commands(opened: OpenRun) -> Iterator[RerunCommand]:
    """Yield the ways on of a run that is paused."""
    run = opened.reference
    yield RerunCommand(purpose="Go on with it as it is", command=f"longshore unpause {run}")
    yield RerunCommand(purpose="End it, for good or to mend it", command=f"longshore cancel {run}")
    if _is_amendable(opened):
        yield RerunCommand(purpose="Run it again once it is mended", command=f"longshore restart {run} --with-changes")
    yield RerunCommand(purpose="Watch it again", command=f"longshore report --watch {run}")


def _is_amendable(opened: OpenRun) -> bool:
    """Tell whether a restart can take a changed configuration."""
    return isinstance(opened.service, Amendable) and not opened.service.why_not_amended(opened.run)


def _unpack_commands(archive: UnpackCommands) -> Iterator[RerunCommand]:
    """Yield the commands that make a run of an archive again: an archive can only be looked at."""
    yield RerunCommand(purpose="Unpack the archive; no file is replaced", command=archive.unpack)
    yield RerunCommand(purpose="Let the id of the run lead to the directory", command=archive.adopt)


def _restart_commands(opened: OpenRun, run: str) -> Iterator[RerunCommand]:
    """Yield the commands that restart a run that is over, as far as its service can."""
    try:
        service = opened.service
    except LongshoreError:
        # It is not installed here.
        return
    if not isinstance(service, Restartable):
        return
    restart = f"longshore restart {run}"
    yield RerunCommand(purpose="List the jobs that a restart would run", command=f"{restart} --dry-run")
    yield RerunCommand(purpose="Run the jobs again that did not succeed", command=restart)
    if _is_amendable(opened):
        words = "The same, with the configuration as it is now"
        yield RerunCommand(purpose=words, command=f"{restart} --with-changes")


def _submit_command(made_from: Fingerprint, secrets: Collection[str]) -> str:
    """Return the command that prepared the run; secrets among its options are masked."""
    words = ["longshore", "submit", made_from.file]
    for text in made_from.sets:
        key, _, value = text.partition("=")
        words += ["--set", f"{key}={mask_secrets(key.rpartition('.')[2], value, secrets)}"]
    command = shlex.join(words)
    if made_from.options:
        named = ", ".join(f"{key}={mask_secrets(key, value, secrets)}" for key, value in made_from.options.items())
        command += f"  # with options: {' '.join(named.split())}"
    return f"cd {shlex.quote(made_from.folder)} && {command}"
