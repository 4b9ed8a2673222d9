"""Prepares a run of BPS's generic workflow in the submit directory of BPS."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from lsst.ctrl.bps import BpsConfig, GenericWorkflow, GenericWorkflowJob
from msgspec.structs import replace

from longshore.bps.import_workflow import import_workflow, with_environment
from longshore.config.core_keys import TABLE
from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.keys import JOB, bps_attribute
from longshore.config.layers import Overrides
from longshore.config.merge import to_node
from longshore.contract.service import RunPaths
from longshore.errors import FilesError, Origin
from longshore.model.workflow import JobSettings
from longshore.plan.checks import check_jobs
from longshore.plan.probe import refuse_by_probe
from longshore.plan.resolved_run import ResolvedRun, resolve_run
from longshore.plan.run_plan import RunPlan, single_job_profile
from longshore.plan.submit_once import PreparedRun
from longshore.plan.write_run import write_run
from longshore.progress import Progress, QuietProgress, RecordingProgress
from longshore.rundir.registry import remove_entry, reserved_id
from longshore.system.atomic import create_file

_LOG: Final = logging.getLogger(__name__)
_VALUES: Final = {
    bps_attribute(row.name): row.name
    for row in TABLE.level(JOB)
    if row.bps and (row.passed or row.name.startswith(("request", "compute")))
}
"""Key of the configuration per attribute of a job of BPS."""


class BpsLogProgress:
    """Passes messages to the log of ``bps``."""

    def note(self, text: str) -> None:
        """Log a note."""
        _LOG.info("%s", text)

    def warn(self, text: str) -> None:
        """Log a warning about the configuration."""
        _LOG.warning("%s", text)

    def inform(self, text: str) -> None:
        """Log a fact."""
        _LOG.info("%s", text)

    def stage(self, text: str) -> None:
        """Log the start of a stage."""
        _LOG.info("Longshore: %s", text)


@hidden_secrets()
def refuse_unusable(config: BpsConfig) -> None:
    """Refuse a configuration with errors, or whose workload manager takes no runs; nothing stays on disk.

    Raises
    ------
    LongshoreError
        The first error.
    """
    with TemporaryDirectory(prefix="longshore-") as folder:
        run = _resolve(config, Path(folder), Path(config["submitPath"]), QuietProgress(), now=time.time())
        refuse_by_probe(run.context.probe)


def _resolve(
    config: BpsConfig, folder: Path, submit_path: Path, progress: Progress, *, now: float, run_id: str = ""
) -> ResolvedRun:
    """Resolve a run from the configuration of BPS, which BPS writes to its submit directory."""
    path = folder / f"{config['uniqProcName']}_config.yaml"
    if not path.is_file():
        text = StringIO()
        config.dump(text)
        create_file(path, [text.getvalue().encode()], below=folder)
    return resolve_run(path, Overrides({"submitPath": str(submit_path)}), now=now, progress=progress, run_id=run_id)


@hidden_secrets()
def prepare_run(config: BpsConfig, generic: GenericWorkflow, folder: Path) -> PreparedRun:
    """Write the run directory of a generic workflow around the files of BPS.

    Raises
    ------
    LongshoreError
        The run cannot be prepared; the files of BPS are as before.
    """
    progress = RecordingProgress(BpsLogProgress())
    if RunPaths(folder).card.exists():
        raise FilesError(f"'{folder}' has a run already", hint="Choose another 'submitPath'.")
    with reserved_id() as (run_id, now):
        run = _resolve(config, folder, folder, progress, now=now, run_id=run_id)
        compiler = SettingsCompiler(run, progress)
        workflow = import_workflow(generic, compiler.settings_of, folder, _ordering_dimensions(config))
        started = check_jobs(run, workflow, progress)
        kept = tuple(sorted(path.name for path in folder.iterdir()))
        prepared = write_run(RunPlan(run=run, workflow=workflow, started=started, kept_files=kept, has_sources=False))
    # Nothing was submitted: the id stays that of the directory, and is registered with the submission.
    remove_entry(run_id)
    return replace(prepared, keep=True)


class SettingsCompiler(msgspec.Struct):
    """Makes the settings of jobs of BPS, one record for all jobs with equal values."""

    run: ResolvedRun
    progress: RecordingProgress
    _known: dict[str, JobSettings] = msgspec.field(default_factory=dict)

    def settings_of(self, job: GenericWorkflowJob) -> JobSettings:
        """Return the settings of a job: its own values, and what its site has beside them."""
        values = job_values(job)
        key = repr((job.label, values, job.environment))
        if key not in self._known:
            section = to_node(values, Origin("BPS's generic workflow"))
            profile = single_job_profile(self.run, job.label, searchobj=section, progress=self.progress)
            self._known[key] = with_environment(profile.settings, job.environment)
        return self._known[key]


def job_values(job: GenericWorkflowJob) -> dict[str, Any]:
    """Return the attributes of a job as values of a configuration; what BPS leaves out is stated."""
    values = {key: getattr(job, name) for name, key in _VALUES.items() if getattr(job, name) is not None}
    # Without a value BPS means none of these, and a configuration means its default.
    values["numberOfRetries"] = job.number_of_retries or 0
    values["memoryMultiplier"] = job.memory_multiplier or 1
    values["retryUnlessExit"] = job.retry_unless_exit if job.retry_unless_exit is not None else []
    values["environment"] = {}
    return values


def _ordering_dimensions(config: BpsConfig) -> Mapping[str, tuple[str, ...]]:
    """Return the dimensions of each ordering of the configuration."""
    found, orderings = config.search("ordering", opt={"default": {}})
    if not found or not orderings:
        return {}
    return {
        str(name): tuple(part.strip() for part in str(orderings[name]["dimensions"]).split(","))
        for name in orderings
        if orderings[name]["dimensions"]
    }
