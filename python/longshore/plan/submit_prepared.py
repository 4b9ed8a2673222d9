"""Submits a run that was prepared before, if its inputs are unchanged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.config.hidden_secrets import note_secrets
from longshore.config.secret_values import read_secrets
from longshore.config.service_lookup import find_run_service
from longshore.contract.capabilities import JobProbe, recovered_submission
from longshore.contract.executor import ExecutorOwner
from longshore.contract.service import Context, Problem, RunPaths, Site, WmsService
from longshore.engine.run_settings import read_settings
from longshore.errors import (
    ErrorDetail,
    RunNotFoundError,
    RunUnreadableError,
    SubmissionRefusedError,
)
from longshore.graphs.quantum_graph import QUANTUM_GRAPH_SUFFIXES
from longshore.model.json_lines import encode_document
from longshore.model.submission import Fingerprint, RunIdentity
from longshore.model.workflow import Job
from longshore.plan.checks import find_missing_inputs
from longshore.plan.fingerprint import find_changes
from longshore.plan.probe import note_unanswered_probe, probe, probe_jobs, refuse_by_probe
from longshore.plan.problems import raise_problems
from longshore.plan.stages import advance_run
from longshore.plan.submit_once import PreparedRun, SubmittedRun, refuse_if_submitted
from longshore.progress import Progress, RecordingProgress
from longshore.rundir.job_table import JobTable, read_header
from longshore.rundir.registry import trust_own_manifest
from longshore.rundir.run_directory import Access, read_card, read_made_from, read_submitting, require_access
from longshore.rundir.submissions import accept_changes, read_manifest
from longshore.runstate.open_run import map_read_errors
from longshore.system.reading import current_directory
from longshore.system.sharing import lock_folder

_HINT: Final = "Prepare the run again, or submit its directory as it is now with --force."


def submit_prepared(
    folder: Path, *, force: bool, with_probe: bool = True, shares_outputs: bool = False, progress: Progress
) -> SubmittedRun:
    """Submit a prepared run from its directory; `force` submits it even if inputs changed.

    Without `with_probe`, the workload manager is not asked first. With `shares_outputs`, a live run may write the same
    files.

    Raises `RunNotFoundError` if the directory is no run or not completely prepared (`RunUnreadableError` for a newer
    format), `FilesError` if the current directory does not exist, `SubmissionRefusedError` if the run was submitted
    or moved, its inputs changed, or the service refuses it.
    """
    recording = RecordingProgress(progress)
    current_directory()  # required by relative paths and for the comparison
    run = RunPaths(Path(os.path.realpath(folder)))
    card = _read_card(run)
    note_secrets(lambda: read_secrets(run.merged_config(card.name)))
    require_access(run, Access.ACT)
    service = find_run_service(card.service)
    fingerprint = read_made_from(run)
    site, umask = (fingerprint.site, fingerprint.umask) if fingerprint else ("", None)
    prepared = PreparedRun(
        run=run, card=card, service=service, site=site, umask=umask, keep=True, shares_outputs=shares_outputs
    )
    if read_submitting(run) is not None and not card.submissions:
        # A submitted run is as it was when its process handed it over.
        with lock_folder(run.root):
            is_submitted = recovered_submission(service, run) is not None
        if is_submitted:
            return advance_run(prepared, SubmittedRun, recording)
    refuse_if_submitted(run, card, service)
    read_header(run, checked=False)  # reports a newer format or a damaged header first
    if fingerprint is not None:
        _refuse_if_moved(run, Path(fingerprint.root))
    recording.stage("comparing the inputs with those of the preparation")
    _refuse_changes(run, _find_changes(run, card, fingerprint, service), recording, force=force)
    if force and (manifest := read_manifest(run)) is not None:
        with lock_folder(run.root):
            refuse_if_submitted(run, read_card(run), service)
            trust_own_manifest(run, encode_document(accept_changes(run, manifest)))
    if with_probe:
        _probe(prepared, recording)
    return advance_run(prepared, SubmittedRun, recording)


def _probe(prepared: PreparedRun, progress: Progress) -> None:
    """Ask the workload manager, as before a run of a configuration; raises `LongshoreError` if it refuses the run."""
    run, service = prepared.run, prepared.service
    # Others get the whole graph, and keep no settings of a site in the run.
    if (
        service.traits.runs_on_submit_host
        or not isinstance(service, ExecutorOwner)
        or not isinstance(service, JobProbe)
    ):
        return
    with map_read_errors(run):
        jobs = JobTable(run)
        first = {profile: index for index, profile in reversed([*enumerate(jobs.profile_of)])}
        kinds = [
            Job(name=job.name, label=settings.label, command=job.c, settings=settings)
            for profile, index in sorted(first.items())
            for job, settings in [(jobs[index], jobs.header.settings[profile])]
        ]
        executor = read_settings(run).executor
    site = Site(name=prepared.site, settings=executor)
    context = Context(settings={"executor": executor}, site=site, paths=run, templates={})
    report = probe(service, context)
    if report is None:
        note_unanswered_probe(service.name, str(run.root), progress)
        return
    refuse_by_probe(report)
    raise_problems(probe_jobs(service, kinds, msgspec.structs.replace(context, probe=report)), progress)


def _read_card(run: RunPaths) -> RunIdentity:
    """Return the run's card, or raise why it has none."""
    try:
        return read_card(run)
    except RunNotFoundError as error:
        if isinstance(error, RunUnreadableError):
            raise
        if ".draft-" in run.root.name:
            raise RunNotFoundError(
                f"'{run.root}' was not completely prepared",
                hint="It is what is left of a command that was killed: remove it, and prepare the run again.",
            ) from None
        graphs: list[Path] = []
        with suppress(OSError):
            graphs = sorted(
                path for path in run.root.iterdir() if path.suffix in QUANTUM_GRAPH_SUFFIXES and path.is_file()
            )
        if graphs:
            raise RunNotFoundError(
                f"'{run.root}' was not completely prepared: there is a quantum graph in it, and no '{run.card.name}'",
                hint=f"The graph need not be made again: longshore submit FILE --qgraph {graphs[0]}",
            ) from None
        raise


def _refuse_if_moved(run: RunPaths, original: Path) -> None:
    """Refuse a directory prepared under another name: jobs may name files in it."""
    if Path(os.path.realpath(original)) == run.root:
        return
    with suppress(OSError):
        if original.samefile(run.root):
            return
    raise SubmissionRefusedError(
        f"'{run.root}' was prepared as '{original}', and its jobs may name files there",
        hint="Move it back, or prepare the run again; only a run that was submitted can be moved.",
    )


def _find_changes(
    run: RunPaths, card: RunIdentity, fingerprint: Fingerprint | None, service: WmsService
) -> list[Problem]:
    """Return all changes since the run was prepared."""
    if fingerprint is None:
        changes = [Problem(message=f"the inputs of the preparation are unknown: there is no '{run.made_from.name}'")]
    else:
        changes = list(find_changes(run, card, fingerprint))
    if service.traits.runs_on_submit_host:
        try:
            with map_read_errors(run):
                changes += find_missing_inputs(run)
        except RunUnreadableError:
            # The refusal names the changed workflow, and `force` accepts it; without changes, this error names it.
            if not changes:
                raise
    return changes


def _refuse_changes(run: RunPaths, changes: Sequence[Problem], progress: Progress, *, force: bool) -> None:
    """Refuse changed inputs; with `force`, print them as notes."""
    if force:
        for change in changes:
            place = f"{change.origin}: " if change.origin else ""
            progress.note(f"submitted despite a change: {place}{change.message}")
        return
    if not changes:
        return
    faults = tuple(
        ErrorDetail(code=SubmissionRefusedError.code, message=change.message, origin=change.origin, hint=_HINT)
        for change in changes
    )
    others = f" (and {len(faults) - 1} more)" if faults[1:] else ""
    error = SubmissionRefusedError(
        f"changed since '{run.root}' was prepared: {changes[0].message}{others}",
        origin=changes[0].origin,
        hint=_HINT,
    )
    error.details = faults
    raise error
