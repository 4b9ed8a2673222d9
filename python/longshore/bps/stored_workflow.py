"""Stored workflow: what a plug-in of BPS gets, as one file of JSON in the run directory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.config.templates import LESS_THAN
from longshore.contract.service import RunPaths
from longshore.jobs.commands import command_program, insert_run_folder, shell_line
from longshore.model.tasks import Command, File, Scalar
from longshore.model.workflow import MIB, Job, Ordering, Workflow

FILE: Final = "wms/bps_workflow.json"
"""Path relative to the run directory."""
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_]\w*)-?\}|\"\$\{([A-Za-z_]\w*)-?\}\"", re.ASCII)
_LSST_PROGRAM: Final = re.compile(r"\$\{(CTRL_MPEXEC_DIR|DAF_BUTLER_DIR):\+\$\{\1\}/bin/\}(pipetask|butler)(?![\w./-])")
_ATTRIBUTES: Final = {
    "accountingGroup": "accounting_group",
    "accountingUser": "accounting_user",
    "mailTo": "mail_to",
    "whenToMail": "when_to_mail",
    "abortOnValue": "abort_on_value",
    "abortReturnValue": "abort_return_value",
    "priority": "priority",
    "category": "category",
    "concurrencyLimit": "concurrency_limit",
    "queue": "queue",
    "preCmdline": "pre_cmdline",
    "postCmdline": "post_cmdline",
    "preemptible": "preemptible",
    "memoryMultiplier": "memory_multiplier",
}
"""Attribute of BPS's jobs per key that Longshore passes on as it is."""


class ExportedJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job: its program and arguments in BPS's form, and the values of its attributes by BPS's names."""

    name: str
    label: str
    program: str
    arguments: str
    folder: str = ""
    """Where its command starts; empty for anywhere."""
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    tags: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    quanta: Mapping[str, int] = msgspec.field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()


class StoredWorkflow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All jobs of a run in their order, the final one apart, with files and orderings."""

    name: str
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
    files: tuple[File, ...] = ()
    jobs: tuple[ExportedJob, ...] = ()
    final: ExportedJob | None = None
    orderings: tuple[Ordering, ...] = ()


def store_workflow(workflow: Workflow, root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the text of the file for a workflow whose run directory will be `root`; `env` is that of the submission."""
    final = workflow.final
    stored = StoredWorkflow(
        name=workflow.name,
        attributes=dict(workflow.attributes),
        files=tuple(msgspec.structs.replace(file, path=_absolute(file.path, root)) for file in workflow.files.values()),
        jobs=tuple(_store_job(job, workflow, root, env) for job in workflow if job is not final),
        final=_store_job(final, workflow, root, env) if final else None,
        orderings=workflow.orderings,
    )
    yield msgspec.json.encode(stored).decode() + "\n"


def read_workflow(run: RunPaths) -> StoredWorkflow:
    """Read the file of a run."""
    return msgspec.json.decode((run.root / FILE).read_bytes(), type=StoredWorkflow)


def _store_job(job: Job, workflow: Workflow, root: Path, env: Mapping[str, str]) -> ExportedJob:
    program, arguments = split_command(job.command, root, env)
    return ExportedJob(
        name=job.name,
        label=job.label,
        program=program,
        arguments=arguments,
        folder=job.settings.working_directory or str(root),
        values=job_attributes(job),
        # BPS has no way to write a sign that begins no placeholder.
        environment={
            name: value.replace(LESS_THAN, "<")
            for name, value in {**job.settings.environment, **job.environment}.items()
        },
        tags=dict(job.tags),
        quanta=job.quanta_counts,
        inputs=job.inputs,
        outputs=job.outputs,
        parents=tuple(workflow.parents(job.name)),
    )


def split_command(command: Command, root: Path, env: Mapping[str, str]) -> tuple[str, str]:
    """Split a command into a program and its arguments, in which BPS's placeholders stand for variables.

    A line that only a shell can run becomes the argument of one.
    """
    program = command_program(command) if isinstance(command, str) else None
    line = _LSST_PROGRAM.sub(lambda found: _lsst_program(found, env), shell_line(command))
    line = insert_run_folder(line, root)
    if isinstance(command, str) and program is None and not _is_simple(line):
        line = f"/bin/sh -c {shlex.quote(line)}"
    else:
        line = _REFERENCE.sub(lambda found: f"<ENV:{found[1] or found[2]}>", line)
    first, _, rest = line.strip().partition(" ")
    return first, rest.strip()


def _is_simple(line: str) -> bool:
    """Whether a line is one program with plain arguments, once variables have values."""
    return not re.search(r"[;&|<>()`\n#*?~]|\$(?!\{[A-Za-z_]\w*-?\})", re.sub(r"<(ENV|FILE|WMS):[^<>]+>", "", line))


def _lsst_program(found: re.Match[str], env: Mapping[str, str]) -> str:
    return f"${{{found[1]}}}/bin/{found[2]}" if env.get(found[1]) else found[2]


def job_attributes(job: Job) -> dict[str, Any]:
    """Return the attributes of a job by BPS's names, in BPS's units."""
    settings, request = job.settings, job.settings.request
    retries, never = settings.number_of_retries, list(settings.retry_unless_exit)
    if not retries and settings.attributes.get("memoryMultiplier") and settings.rules.retries_on_memory:
        # A plug-in has one number for all causes: what a program exits with itself is taken out of it.
        retries, never = settings.rules.retries_on_memory, sorted({*never, *range(1, 129)})
    values: dict[str, Any] = {"request_cpus": request.cpus, "number_of_retries": retries}
    if request.memory_b is not None:
        values["request_memory"] = -(-request.memory_b // MIB)
    if request.disk_b is not None:
        values["request_disk"] = -(-request.disk_b // MIB)
    if request.walltime_s is not None:
        values["request_walltime"] = -(-int(request.walltime_s) // 60)
    if never:
        values["retry_unless_exit"] = never
    if settings.site:
        values["compute_site"] = settings.site
    if settings.cloud:
        values["compute_cloud"] = settings.cloud
    most = settings.attributes.get("requestMemoryMax")
    if isinstance(most, int | float):
        values["request_memory_max"] = int(most) // MIB
    values |= {ours: settings.attributes[key] for key, ours in _ATTRIBUTES.items() if key in settings.attributes}
    return values


def _absolute(path: str, root: Path) -> str:
    return path if "://" in path else str(root / path)
