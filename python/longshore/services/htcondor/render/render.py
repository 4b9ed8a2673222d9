"""Renders a workflow into the files of ``wms/`` that DAGMan runs.

They also work by hand: ``condor_submit_dag run.dag`` in that folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from longshore.contract.service import Context, RenderedFile
from longshore.engine.job_wrapper import wrapper_file
from longshore.model.tasks import collection_paused
from longshore.services.htcondor.render import dag, log_names, notifier, provisioning, removal_status, transfer
from longshore.services.htcondor.render.dag_edges import BARRIER_SCRIPT, has_barrier_scripts
from longshore.services.htcondor.render.output_words import has_checked_outputs
from longshore.services.htcondor.render.settings import dagman_settings
from longshore.services.htcondor.submission_record import DAG, OVERRIDES

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

FOLDER: Final = PurePosixPath("wms")
CONFIG: Final = FOLDER / dag.CONFIG
FINAL_SCRIPT: Final = FOLDER / dag.FINAL_SCRIPT
_BARRIER_PROGRAM: Final = Path(__file__).with_name("barrier_script.py")
OVERRIDES_TEXT: Final = """\
# Read last: what is said of a node here holds. What it asks for at first are mem and disk (MiB), cpus, wall (seconds):
#   VARS j12 mem="4096"
# And any command of its submit description can be given anew:
#   VARS j12 APPEND request_gpus="1"
"""
_FINAL_TEXT: Final = """\
#!/bin/sh
# Run by DAGMan when the final job has ended, with the status of the DAG and the exit code of that job: a final job that
# succeeds does not hide that others failed.
[ "$1" -eq 0 ] || exit "$1"
exit "$2"
"""


def render(workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
    """The files of a run: fewer than ten for any number of jobs."""
    yield RenderedFile(path=DAG, chunks=lambda: _dag_chunks(workflow, ctx))
    yield RenderedFile(path=OVERRIDES, is_mutable=True, chunks=lambda: iter((OVERRIDES_TEXT,)))
    yield RenderedFile(path=CONFIG, chunks=lambda: dag.config_text(dagman_settings(ctx)))
    if workflow.final is not None:
        yield RenderedFile.from_text(FINAL_SCRIPT, _FINAL_TEXT, mode=0o755)
    if removal_status.has_removal_retries(job.settings for job in workflow):
        yield RenderedFile.from_text(FOLDER / removal_status.SCRIPT, removal_status.TEXT, mode=0o755)
    if has_checked_outputs(workflow) and not transfer.is_enabled(ctx):
        yield wrapper_file(ctx)
    if has_barrier_scripts(workflow):
        yield RenderedFile.from_text(FOLDER / BARRIER_SCRIPT, _BARRIER_PROGRAM.read_text("utf-8"), mode=0o755)
    if notifier.has_notices(ctx):
        yield RenderedFile.from_text(FOLDER / notifier.SCRIPT, notifier.script_text(ctx), mode=0o755)
    if provisioned := provisioning.provisioning(ctx):
        program = provisioning.script_text(provisioned, ctx)
        yield RenderedFile.from_text(FOLDER / provisioning.SCRIPT, program, mode=0o755)
        if provisioned.config:
            yield RenderedFile.from_text(FOLDER / provisioning.CONFIG, provisioned.config)


def folders(workflow: Workflow) -> Iterator[str]:
    """The directories of all logs: HTCondor creates none, and holds a job whose log it cannot open."""
    return log_names.log_folders(job.settings.label for job in workflow)


def _dag_chunks(workflow: Workflow, ctx: Context) -> Iterator[str]:
    # None of hundreds of thousands of small texts is garbage; collection would take longer than rendering.
    with collection_paused():
        yield from dag.dag_text(workflow, ctx)
