"""Formats what a job runs as text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from longshore.app.job.job_details import JobDetails, JobFile
from longshore.app.job.request_text import budget_texts, request_text, retries_text
from longshore.model.text_format import INDENT, escape_controls, staged_text

_MAX_NAMES: Final = 5


def job_text(job: JobDetails) -> str:
    """Format a job's command, environment, request and files, as ``show-job`` prints it."""
    attempts = "not begun yet" if not job.attempts else f"of {job.attempts} so far"
    facts: list[tuple[str, str]] = [
        ("Job", f"{job.name} (number {job.index}, label {job.label}) of run {job.run}"),
        ("Attempt", f"{job.attempt}, {attempts}"),
        *([("Ended", f"{job.cause or 'succeeded'}: {job.reason}")] if job.reason else []),
        ("Request", request_text(job.request)),
        ("Retries", retries_text(job.number_of_retries, job.retry_unless_exit)),
        *(("", text) for text in budget_texts(job.number_of_retries, job.retry_budgets)),
        ("Directory", f"{'scratch, with files of ' if job.is_staged else ''}{job.working_directory}"),
        ("Log", job.log),
        ("Launcher", job.launcher),
        ("Staged", staged_text(job.staged) if job.staged else ""),
        ("Tags", ", ".join(f"{name}={value}" for name, value in job.tags.items())),
        ("Tasks", str(job.tasks) if job.tasks > 1 else ""),
        ("Site", " ".join(filter(None, [job.site, job.cloud and f"(cloud {job.cloud})"]))),
        ("Asked for", ", ".join(f"{name}={value}" for name, value in job.attributes.items())),
        ("Parents", _join_names(job.parents)),
        ("Children", _join_names(job.children)),
    ]
    lines = [f"{name and name + ':':10} {value}" for name, value in facts if value]
    lines += _file_lines("Reads", job.inputs) + _file_lines("Writes", job.outputs)
    lines += ["", "Environment set by the run:"]
    for name, value in job.environment.items():
        lines.append(f"{INDENT}{name}={'(hidden: it looks like a secret)' if value is None else value}")
    lines += ["", "Command:"]
    lines += [INDENT + line for setup in job.setup for line in setup.splitlines()]
    lines += [INDENT + line for line in job.line.splitlines()]
    where = f"longshore show-job {job.run} {shlex.quote(job.name)} --attempt {job.attempt} --script | sh"
    lines += ["", f"By hand: {where}"]
    return "\n".join(map(escape_controls, lines))


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if names[_MAX_NAMES:] else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _file_lines(title: str, files: Sequence[JobFile]) -> list[str]:
    more = [f"{INDENT}... and {len(files) - _MAX_NAMES} more"] if files[_MAX_NAMES:] else []
    names = (f"{INDENT}{file.path or file.name}" for file in files[:_MAX_NAMES])
    return [f"{title}:", *names, *more] if files else []
