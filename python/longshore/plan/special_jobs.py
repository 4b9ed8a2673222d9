"""Makes the jobs without tasks: the init job and the final job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from longshore.config.profile import JobProfile
from longshore.config.search import INIT_LABEL
from longshore.config.templates import protect_text
from longshore.errors import PreparationError
from longshore.model.workflow.final_label import FINAL_LABEL
from longshore.model.workflow.job import Job

FINAL_SCRIPT: Final = "final_job.bash"
"""Path of the final job's script, relative to the run directory."""


class SpecialJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a workflow without tasks, each optional."""

    init: Job | None = None
    """Job before all others."""
    last: Job | None = None
    """Job after all others, if they succeed."""
    final: Job | None = None
    """Job after all others, whether or not they succeed."""


def init_job(profile: JobProfile, inputs: tuple[str, ...] = ()) -> Job:
    """Job that runs before all others; its command is ``pipetask.pipetaskInit.runQuantumCommand``.

    Raises `PreparationError` if it has no command.
    """
    values = {"label": INIT_LABEL, "jobName": INIT_LABEL, "jobLabel": INIT_LABEL}
    template = profile.command
    if template is None:
        raise PreparationError(
            "'runInit' asks for an init job, which has no command",
            hint=f"Give it one: pipetask: {{{INIT_LABEL}: {{runQuantumCommand: ...}}}}; or say 'runInit: false'.",
        )
    if isinstance(template, tuple):
        return _make_job(INIT_LABEL, profile, tuple(word.render(values) for word in template), inputs)
    return _make_job(INIT_LABEL, profile, template.render(values), inputs)


def final_job(profile: JobProfile, arguments: Sequence[tuple[str, str]] = (), inputs: tuple[str, ...] = ()) -> Job:
    """Job that runs the final script, with the values of `arguments` in their order."""
    script = f"<ENV:LONGSHORE_JOB_RUN_DIR>/{FINAL_SCRIPT}"
    return _make_job(FINAL_LABEL, profile, ("/bin/bash", script, *(value for _, value in arguments)), inputs)


def final_script(commands: Sequence[str], arguments: Sequence[str] = ()) -> str:
    """Script of the final job: as in BPS it prints each line before it runs, and stops at the first failure."""
    named = [f"{name}=${number}" for number, name in enumerate(arguments, 1)]
    return "\n".join(["#!/bin/bash", "", "set -e", "set -x", *named, *commands]) + "\n"


def _make_job(name: str, profile: JobProfile, command: str | tuple[str, ...], inputs: tuple[str, ...] = ()) -> Job:
    values = {"label": name, "jobName": name, "jobLabel": name}
    return Job(
        name=name,
        label=name,
        command=command,
        settings=profile.settings,
        quanta=None,
        inputs=inputs,
        environment={
            variable: template.render(values, quote=protect_text) for variable, template in profile.environment.items()
        },
    )
