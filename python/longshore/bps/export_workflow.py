"""Makes BPS's generic workflow and configuration of a stored run, for a plug-in of BPS."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any, Final

import yaml
from lsst.ctrl.bps import (
    BpsConfig,
    GenericWorkflow,
    GenericWorkflowExec,
    GenericWorkflowFile,
    GenericWorkflowJob,
)

from longshore.bps.stored_workflow import ExportedJob, StoredWorkflow
from longshore.contract.service import RunPaths, log_path
from longshore.jobs.commands import fill_attempt
from longshore.model.workflow import Ordering

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
