"""Makes the jobs that belong to no task: the one before all others, and the one after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from longshore.config.profile import JobProfile
from longshore.errors import PreparationError
from longshore.model.job import Job

INIT_LABEL: Final = "pipetaskInit"
FINAL_LABEL: Final = "finalJob"
FINAL_SCRIPT: Final = "final_job.bash"
"""Where the final job's script lies, relative to the run directory."""


@dataclass(frozen=True, kw_only=True)
class SpecialJobs:
    """The jobs of a workflow that belong to no task, as far as there are any.

    Attributes
    ----------
    init
        Before all others.
    last
        After all others, if they succeed.
    final
        After all others, whatever becomes of them.
    """

    init: Job | None = None
    last: Job | None = None
    final: Job | None = None


def init_job(profile: JobProfile, inputs: tuple[str, ...] = ()) -> Job:
    """The job that runs before all others; its command is ``pipetask.pipetaskInit.runQuantumCommand``.

    Parameters
    ----------
    profile
        What it is made from.
    inputs
        Names of the workflow's files that it reads.

    Raises
    ------
    PreparationError
        It has no command.
    """
    values = {"label": INIT_LABEL, "jobName": INIT_LABEL, "jobLabel": INIT_LABEL}
    template = profile.command
    if template is None:
        raise PreparationError(
            "'runInit' asks for an init job, which has no command",
            hint=f"Give it one: pipetask: {{{INIT_LABEL}: {{runQuantumCommand: ...}}}}; or say 'runInit: false'.",
        )
    if isinstance(template, tuple):
        return _job(INIT_LABEL, profile, tuple(word.render(values) for word in template), inputs)
    return _job(INIT_LABEL, profile, template.render(values), inputs)


def final_job(profile: JobProfile, arguments: Sequence[tuple[str, str]] = (), inputs: tuple[str, ...] = ()) -> Job:
    """The job that runs the final script.

    Parameters
    ----------
    profile
        What it is made from.
    arguments
        Name and value of each argument of the script.
    inputs
        Names of the workflow's files that it reads.
    """
    script = f"<ENV:LONGSHORE_JOB_RUN_DIR>/{FINAL_SCRIPT}"
    return _job(FINAL_LABEL, profile, ("/bin/bash", script, *(value for _, value in arguments)), inputs)


def final_script(commands: Sequence[str], arguments: Sequence[str] = ()) -> str:
    """The final job's script: as in BPS it says each line before running it, and stops at the first that fails.

    Parameters
    ----------
    commands
        Its lines.
    arguments
        Names that these have for what it is called with.
    """
    named = [f"{name}=${number}" for number, name in enumerate(arguments, 1)]
    return "\n".join(["#!/bin/bash", "", "set -e", "set -x", *named, *commands]) + "\n"


def _job(name: str, profile: JobProfile, command: str | tuple[str, ...], inputs: tuple[str, ...] = ()) -> Job:
    values = {"label": name, "jobName": name, "jobLabel": name}
    return Job(
        name=name,
        label=name,
        command=command,
        settings=profile.settings,
        quanta=None,
        inputs=inputs,
        environment={variable: template.render(values) for variable, template in profile.environment.items()},
    )
