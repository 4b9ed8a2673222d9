"""Commands that run a run again, or continue it, as a user would type them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from longshore.app.page.page_data import RerunCommand
from longshore.app.runs.open_run import READ_ERRORS, OpenRun
from longshore.config.lint.secrets import mask_secrets
from longshore.model.run.fingerprint import Fingerprint
from longshore.model.run.report import RunReport
from longshore.model.run.states import JobState
from longshore.world.runs.run_directory import read_made_from


def rerun_commands(opened: OpenRun, report: RunReport) -> Iterator[RerunCommand]:
    """Yield the commands that fit the state of a run, and those that began it."""
    run = opened.reference
    counts = report.counts
    if report.state is JobState.UNKNOWN and opened.card.submissions:
        yield RerunCommand(purpose="Continue it with a new engine", command=f"longshore resume {run}")
    if any(counts.get(state) for state in (JobState.FAILED, JobState.PRUNED, JobState.DELETED)):
        yield RerunCommand(
            purpose="List the jobs that a restart would run", command=f"longshore restart {run} --dry-run"
        )
        yield RerunCommand(purpose="Run the jobs again that did not succeed", command=f"longshore restart {run}")
        yield RerunCommand(
            purpose="The same, with the configuration as it is now",
            command=f"longshore restart {run} --with-changes",
        )
    if counts.get(JobState.FAILED):
        yield RerunCommand(purpose="Print the logs of all failed jobs", command=f"longshore logs {run} --failed")
    try:
        made_from = read_made_from(opened.run)
    except READ_ERRORS:
        return
    if made_from is not None:
        yield RerunCommand(purpose="Submit the same as a new run", command=_submit_command(made_from))


def _submit_command(made_from: Fingerprint) -> str:
    """Return the command that prepared the run; secrets among its options are masked."""
    words = ["longshore", "submit", made_from.file]
    for text in made_from.sets:
        key, _, value = text.partition("=")
        words += ["--set", f"{key}={mask_secrets(key.rpartition('.')[2], value)}"]
    command = shlex.join(words)
    if made_from.options:
        named = ", ".join(f"{key}={mask_secrets(key, value)}" for key, value in made_from.options.items())
        command += f"  # with options: {' '.join(named.split())}"
    return f"cd {shlex.quote(made_from.folder)} && {command}"
