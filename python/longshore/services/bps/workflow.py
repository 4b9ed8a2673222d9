"""What a plug-in of BPS gets: the stored workflow, one file of JSON in the run directory, and BPS's objects of it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from lsst.ctrl.bps import BpsConfig, GenericWorkflow, GenericWorkflowExec, GenericWorkflowFile, GenericWorkflowJob

from longshore.config.core_keys import TABLE
from longshore.config.keys import bps_attribute
from longshore.config.templates import LESS_THAN
from longshore.contract.service import RunPaths, log_path
from longshore.jobs.commands import command_program, fill_attempt, insert_run_folder, shell_line
from longshore.model.tasks import Command, File, Scalar
from longshore.model.workflow import MIB, Job, Ordering, Workflow

# The stored workflow.


FILE: Final = "wms/bps_workflow.json"
"""Path relative to the run directory."""
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_]\w*)-?\}|\"\$\{([A-Za-z_]\w*)-?\}\"", re.ASCII)
_LSST_PROGRAM: Final = re.compile(r"\$\{(CTRL_MPEXEC_DIR|DAF_BUTLER_DIR):\+\$\{\1\}/bin/\}(pipetask|butler)(?![\w./-])")
_ATTRIBUTES: Final = {
    row.name: bps_attribute(row.name)
    for row in TABLE.rows
    if (row.passed and row.bps) or row.name == "memoryMultiplier"
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


# BPS's generic workflow and configuration of it.


RECORDER: Final = "wms/record-job"
RECORDS: Final = "wms/records"
"""Paths relative to the run directory."""
ATTEMPT_WORD: Final = "%LONGSHORE_JOB_ATTEMPT_NUM%"
"""For the program that records jobs, the mark of the attempt's number in a command and in variables."""


def export_workflow(stored: StoredWorkflow, root: Path, *, records: bool) -> GenericWorkflow:
    """Make a generic workflow: jobs, edges, files, groups, run attributes and the final job.

    With `records`, each job runs below a program that records its start and end in the run directory.
    """
    workflow = GenericWorkflow(stored.name)
    workflow.run_attrs = {"bps_isjob": "True", **stored.attributes}
    files = {
        file.name: GenericWorkflowFile(file.name, src_uri=file.path, wms_transfer=file.transfer, job_shared=file.shared)
        for file in stored.files
    }
    for file in files.values():
        workflow.add_file(file)
    for number, job in enumerate(stored.jobs):
        workflow.add_job(_generic_job(job, root, number if records else None))
        _add_files(workflow, job, files)
    workflow.add_edges_from((parent, job.name) for job in stored.jobs for parent in job.parents)
    orderings = {each.name: _ordering_rule(each, stored) for each in stored.orderings}
    if orderings:
        workflow.add_special_job_ordering(orderings)
    if stored.final is not None:
        final = _generic_job(stored.final, root, len(stored.jobs) if records else None)
        workflow.add_final(final)
        workflow.add_executable(final.executable)
        _add_files(workflow, stored.final, files)
    return workflow


def _generic_job(job: ExportedJob, root: Path, number: int | None) -> GenericWorkflowJob:
    program, arguments, environment = job.program, job.arguments, dict(job.environment)
    if number is not None:
        # The shell of a plug-in must not take the mark for a redirection.
        arguments = fill_attempt(arguments, ATTEMPT_WORD)
        environment = {name: fill_attempt(value, ATTEMPT_WORD) for name, value in environment.items()}
        log = log_path(number, job.name, job.label, 1).removesuffix(".1.log")
        recorder = [str(root / RECORDER), str(root / RECORDS), str(number), job.folder, str(root / log)]
        program, arguments = "/bin/sh", f"{shlex.join(recorder)} {program} {arguments}".rstrip()
    # Braces are those of BPS's variables, which have values already.
    arguments = arguments.replace("{", "{{").replace("}", "}}")
    made = GenericWorkflowJob(
        job.name,
        job.label,
        quanta_counts=Counter(job.quanta),
        tags=dict(job.tags),
        executable=GenericWorkflowExec(Path(program).name, src_uri=program, transfer_executable=False),
        arguments=arguments,
        environment=environment,
    )
    for key, value in job.values.items():
        setattr(made, key, value)
    return made


def _add_files(workflow: GenericWorkflow, job: ExportedJob, files: dict[str, GenericWorkflowFile]) -> None:
    if job.inputs:
        workflow.add_job_inputs(job.name, [files[name] for name in job.inputs])
    if job.outputs:
        workflow.add_job_outputs(job.name, [files[name] for name in job.outputs])


def _ordering_rule(ordering: Ordering, stored: StoredWorkflow) -> dict[str, Any]:
    """Return an ordering as a section of BPS's configuration, from which BPS makes nodes."""
    labels = {job.name: job.label for job in stored.jobs}
    used = dict.fromkeys(labels[name] for group in ordering.groups for name in group.jobs)
    return {
        "labels": ", ".join(used),
        "dimensions": ", ".join(ordering.dimensions),
        "implementation": str(ordering.implementation),
        "blocking": ordering.blocking,
    }


def export_config(run: RunPaths, name: str, service: str) -> BpsConfig:
    """Make a configuration of BPS of the merged configuration of a run, with the defaults of a plug-in below it."""
    values = yaml.safe_load(run.merged_config(name).read_text("utf-8"))
    values["wmsServiceClass"] = service
    options = values.get("bps_cmdline") or {}
    values["bps_cmdline"] = {**options, "submitPath": str(run.root), "wmsServiceClass": service}
    values.setdefault("bps_defined", {})["uniqProcName"] = name
    return BpsConfig(_without_nulls(values), defaults={"wmsServiceClass": service}, wms_service_class_fqn=service)


def _without_nulls(value: Any) -> Any:
    """Return values without those that are null: BPS takes these for text."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value
