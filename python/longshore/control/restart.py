"""Restart: failed or chosen jobs run again in the same directory, unless what they read is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from longshore.config.hidden_secrets import hidden_secrets, note_secrets
from longshore.contract.capabilities import Amendable, Restartable, recovered_submission, require_capability
from longshore.contract.service import RestartChanges, Unreachable
from longshore.control.interventions import explain_interruption
from longshore.control.resume import note_changed_sources, refuse_damage
from longshore.errors import (
    LongshoreError,
    RunUnreadableError,
    SubmissionRefusedError,
    SubmissionUncertainError,
    UnreachableError,
)
from longshore.model.json_lines import encode_document
from longshore.model.states import TERMINAL_STATES, JobState
from longshore.model.submission import Manifest, RunIdentity, Submission
from longshore.model.tasks import is_remote
from longshore.model.wording import count_noun
from longshore.model.workflow import OutputCheck
from longshore.plan.changes import RunComparison, compare_run, count_changed_jobs
from longshore.plan.match_run import locate_output, prepared_root
from longshore.plan.new_submission import next_folder, write_submission
from longshore.plan.shared_outputs import claim_outputs, planned_outputs, stored_outputs
from longshore.plan.submit_once import refuse_if_not_submitted
from longshore.reports.status import status_run
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import newest_life
from longshore.rundir.notices import start_missing_notifier
from longshore.rundir.registry import RegistryEntry, registered_path, trust_own_manifest, write_entry
from longshore.rundir.run_directory import Access, read_card, require_access, write_card
from longshore.rundir.submissions import begin_submission, refuse_changed_files, withdraw_submission
from longshore.runstate.events import all_events
from longshore.runstate.open_run import (
    OpenRun,
    find_job,
    find_jobs_of_labels,
    first_names,
    map_index_errors,
    map_read_errors,
)
from longshore.runstate.replay import replay
from longshore.runstate.restart_selection import RestartReason, RestartSelection, select_for_restart
from longshore.runstate.run_state import JOB_STATES, OVER, JobCode, RunState
from longshore.system.links import link_by_id
from longshore.system.sharing import lock_folder

# Outputs that are gone although jobs of a restart read them: their jobs succeeded, so that a restart keeps them.


class LostOutput(NamedTuple):
    """An output that is gone: its path, the number of its job, and that of a job that reads it."""

    path: Path
    job: int
    reader: int


def refuse_lost_outputs(opened: OpenRun, jobs: JobTable, state: RunState, running: Collection[int]) -> None:
    """Refuse a restart whose jobs would read outputs that are gone; `running` has the jobs that run."""
    lost = list(find_lost_outputs(opened, jobs, state, running))
    if not lost:
        return
    path, job, reader = lost[0]
    names = jobs.names_of({job, reader})
    more = f"; {count_noun(len(lost) - 1, 'more output')} of that kind" if len(lost) > 1 else ""
    labels = list(dict.fromkeys(jobs.label(each.job) for each in lost))
    ways = " ".join(f"--from {label}" for label in labels[:_MAX_LABELS])
    raise SubmissionRefusedError(
        f"'{path}' is gone: '{names[reader]}' reads it, and '{names[job]}', which makes it, succeeded{more}",
        hint=f"To make again what is gone: longshore restart {opened.reference} --with-changes\n"
        f"To run all jobs of {first_names(labels)} again: longshore restart {opened.reference} {ways}\n"
        f"To run without it: longshore restart {opened.reference} --as-it-was",
    )


_MAX_LABELS = 5


def _root_when_made(opened: OpenRun) -> Path:
    """Return the path that the run directory had when its workflow was made; the present one where no file says it."""
    try:
        return prepared_root(opened.run)
    except RunUnreadableError:
        # The file only says what the run was made from: a restart goes on without it.
        return opened.run.root


def find_lost_outputs(
    opened: OpenRun, jobs: JobTable, state: RunState, running: Collection[int]
) -> Iterator[LostOutput]:
    """Yield each output that is gone, of a job that succeeded and stays, and that a job to run reads.

    Outputs that nobody checks (`checkOutputs`) and those at URLs do not count.
    """
    runs = frozenset(running)
    root, was = opened.run.root, _root_when_made(opened)
    made: dict[int, frozenset[str]] = {}
    """Names of checked outputs per job."""
    seen: set[str] = set()
    for reader in sorted(runs):
        inputs = frozenset(jobs[reader].inputs)
        for job in state.parents[reader] if inputs else ():
            if job in runs or state.code[job] != JobCode.SUCCEEDED:
                continue
            if job not in made:
                is_checked = jobs.settings(job).rules.check_outputs is not OutputCheck.NONE
                made[job] = frozenset(jobs[job].outputs if is_checked else ())
            for name in sorted(name for name in inputs - seen if jobs.outputs_with.get(name, name) in made[job]):
                seen.add(name)
                path = jobs.file_paths.get(name, name)
                if not is_remote(path) and not (place := Path(locate_output(root, was, path))).exists():
                    yield LostOutput(place, job, reader)


# Restarts a run: runs failed or selected jobs again in the same run directory, as a new submission.


class RestartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that a restart would run.

    `labels` and `reasons` count these jobs per label and state, and per label and reason. `unfinished` counts jobs
    that go on in any case because the engine died. `changed` counts jobs with changed settings. `changes` holds full
    names of jobs. `comparison` has the changed workflow, if the restart has one.
    """

    labels: Mapping[str, Mapping[JobState, int]]
    reasons: Mapping[str, Mapping[RestartReason, int]]
    unfinished: int
    changed: int
    changes: RestartChanges
    comparison: RunComparison | None = None

    @property
    def total(self) -> int:
        """Number of jobs that run again."""
        return sum(sum(counts.values()) for counts in self.labels.values())


def plan_restart(
    opened: OpenRun, changes: RestartChanges, comparison: RunComparison | None = None, *, ignores_lost: bool = False
) -> RestartPlan:
    """Compute which jobs a restart would run, without running them; with a comparison, those of its changed workflow.

    With `ignores_lost`, jobs may run although outputs that they read are gone. Raises `RunNotFoundError` if a named job
    or label does not exist, `SubmissionRefusedError` if the run is live, a file of it changed, an output is gone that
    would be read, or no named job would run again.
    """
    refuse_restart(opened)
    if comparison is not None:
        return _plan_with_changes(opened, changes, comparison)
    jobs = JobTable(opened.run, "parents")
    changes, selected = _resolve_selection(opened, jobs, changes)
    with map_index_errors(opened.run):
        state = replay(jobs, all_events(opened))
    chosen = select_for_restart(state, {jobs.labels.index(label) for label in changes.from_labels})
    _refuse_active_jobs(opened, jobs, chosen)
    left = [job for job, code in enumerate(state.code) if code not in OVER]
    if not ignores_lost:
        refuse_lost_outputs(opened, jobs, state, (*chosen.jobs, *left))
    labels: dict[str, Counter[JobState]] = {}
    reasons: dict[str, Counter[RestartReason]] = {}
    for job, why in chosen.jobs.items():
        label = jobs.labels[state.labels[job]]
        labels.setdefault(label, Counter())[JOB_STATES[state.code[job]]] += 1
        reasons.setdefault(label, Counter())[why] += 1
    meant = [job for job in (*chosen.jobs, *left) if selected is None or job in selected] if changes.set else []
    if changes.set and not meant:
        raise _nothing_to_set_error(opened, changes)
    return RestartPlan(
        labels=labels,
        reasons=reasons,
        unfinished=sum(state.code[job] != JobCode.HELD for job in left),
        changed=len(meant),
        changes=changes,
    )


def refuse_restart(opened: OpenRun) -> None:
    """Refuse the restart of a run that is live, damaged or not submitted; raises as `plan_restart`."""
    require_capability(opened.service, Restartable, "restart runs")
    refuse_if_not_submitted(opened.run, opened.card)
    refuse_changed_files(opened.run)
    _refuse_if_live(opened)
    refuse_damage(opened)


def compare_sources(opened: OpenRun, sets: tuple[str, ...] = (), *, new_graph: bool = False) -> RunComparison:
    """Compare the sources of a run that could be restarted with their present content; only changes of jobs count.

    `sets` are ``KEY=VALUE`` of the configuration, added to those that the run was submitted with. With `new_graph`, the
    quantum graph is made again, in the run directory. Raises as `refuse_restart`.
    """
    refuse_restart(opened)
    return compare_run(opened, sets, graph_folder=next_folder(opened.run) if new_graph else None)


def _plan_with_changes(opened: OpenRun, changes: RestartChanges, comparison: RunComparison) -> RestartPlan:
    """Compute which jobs of a changed workflow a restart would run."""
    service = require_capability(opened.service, Amendable, "restart runs with another workflow")
    if why := service.why_not_amended(opened.run):
        raise SubmissionRefusedError(
            f"run '{opened.card.id}' cannot have another workflow: {why}",
            hint="Run it as it was with --as-it-was, or submit a new run that keeps its results: "
            f"longshore submit FILE --reuse {opened.reference}",
        )
    counted = count_changed_jobs(opened, changes, comparison)
    return RestartPlan(
        labels=counted.labels,
        reasons=counted.reasons,
        unfinished=counted.unfinished,
        changed=counted.set_for,
        changes=msgspec.structs.replace(changes, has_new_workflow=True),
        comparison=comparison,
    )


@hidden_secrets()
def restart(
    opened: OpenRun,
    changes: RestartChanges,
    comparison: RunComparison | None = None,
    *,
    shares_outputs: bool = False,
) -> tuple[RunIdentity, list[str]]:
    """Submit the jobs of a run that did not succeed again, in the same run directory.

    The parameters are `RestartPlan.changes` and `RestartPlan.comparison`.

    With `shares_outputs`, another live run may write the same files.

    Returns the run's card with the new submission, and notes for the user. Raises `SubmissionRefusedError` if the run
    is live, a file of it changed, it has nothing to run again, or is refused by the service.
    """
    note_secrets(lambda: opened.secrets)
    require_access(opened.run, Access.ACT)
    with map_read_errors(opened.run), lock_folder(opened.run.root):
        # An earlier restart may have been killed halfway.
        if (missed := recovered_submission(opened.service, opened.run)) is not None:
            _record_submission(opened, missed)
        with explain_interruption(opened, "the restart may go on"):
            plan = comparison.plan if comparison is not None else None
            outputs = stored_outputs(opened.run, opened.card) if plan is None else planned_outputs(plan, opened.card.id)
            with claim_outputs(outputs, opened.run.root, share=shares_outputs):
                submission = _submit_again(opened, changes, comparison)
            card = _record_submission(opened, submission)
    if card.other_ids and registered_path(card.id) == str(opened.run.root):
        write_entry(RegistryEntry.of(card, str(opened.run.root)))
    notes = [*note_changed_sources(opened.run), *submission.notes]
    if why := start_missing_notifier(opened.service, opened.run):
        notes.append(why)
    if card.id_links:
        notes.append(link_by_id(Path(card.id_links), submission.id, opened.run.root))
    return card, notes


def _submit_again(opened: OpenRun, changes: RestartChanges, comparison: RunComparison | None) -> Submission:
    service = require_capability(opened.service, Restartable, "restart runs")
    manifest = _begin_submission(opened, comparison)
    if manifest is not None:
        trust_own_manifest(opened.run, encode_document(manifest))
    try:
        return service.restart(opened.run, changes)
    except SubmissionUncertainError:
        raise
    except LongshoreError:
        if manifest is not None and not _is_named(opened, manifest):
            withdraw_submission(opened.run, manifest)
        raise


def _is_named(opened: OpenRun, manifest: Manifest) -> bool:
    """Whether an engine that began meanwhile names a submission in its journal."""
    try:
        life = newest_life(opened.run.journal)
    except (OSError, RunUnreadableError):
        return True
    return life is not None and life.s >= manifest.number


def _begin_submission(opened: OpenRun, comparison: RunComparison | None) -> Manifest | None:
    if comparison is None or comparison.plan is None or comparison.match is None:
        return begin_submission(opened.run)
    return write_submission(opened, comparison.plan, comparison.match)


def _record_submission(opened: OpenRun, submission: Submission) -> RunIdentity:
    # Read again: another restart may have happened in between.
    card = read_card(opened.run)
    is_known = any((each.id, each.by) == (submission.id, submission.by) for each in card.submissions[-1:])
    if is_known and submission.id != card.id:
        # A mirror has it already. The submissions of an engine share the id of the run.
        return card
    card = msgspec.structs.replace(card, submissions=(*card.submissions, submission))
    write_card(opened.run, card)
    return card


def _refuse_if_live(opened: OpenRun) -> None:
    alive = opened.is_alive()
    if isinstance(alive, Unreachable):
        raise UnreachableError(
            f"whether run '{opened.card.id}' still runs cannot be told: {alive.why}",
            hint="Nothing was changed; repeat the command once the workload manager answers.",
        )
    if not alive:
        return
    report = status_run(opened)
    if report.state not in TERMINAL_STATES:
        raise SubmissionRefusedError(
            f"run '{opened.card.id}' is {report.state}",
            hint=f"Wait for its end, or cancel it first: longshore cancel {opened.reference}",
        )


def _resolve_selection(
    opened: OpenRun, jobs: JobTable, changes: RestartChanges
) -> tuple[RestartChanges, frozenset[int] | None]:
    """Return the changes with full job names, and the jobs with changed settings; ``None`` means all."""
    selection = changes.selection
    if selection.everything and not changes.from_labels:
        return changes, None
    find_jobs_of_labels(opened, jobs, changes.from_labels)
    named = [find_job(opened, jobs, job) for job in selection.jobs]
    selection = msgspec.structs.replace(selection, jobs=tuple(jobs.names[job] for job in named))
    labelled = find_jobs_of_labels(opened, jobs, selection.labels)
    selected = None if selection.everything else frozenset([*named, *labelled])
    return msgspec.structs.replace(changes, selection=selection), selected


def _refuse_active_jobs(opened: OpenRun, jobs: JobTable, chosen: RestartSelection) -> None:
    if chosen.active_jobs:
        known = jobs.names_of(chosen.active_jobs)
        names = first_names([known[job] for job in chosen.active_jobs])
        raise SubmissionRefusedError(
            f"jobs to run again were active when the engine of run '{opened.card.id}' died: {names}",
            hint=f"Let them end first: longshore resume {opened.reference}",
        )


def _nothing_to_set_error(opened: OpenRun, changes: RestartChanges) -> SubmissionRefusedError:
    selection = changes.selection
    values = ", ".join(f"{key}={value}" for key, value in changes.set.items())
    if selection.everything:
        return SubmissionRefusedError(
            f"no job to set {values} for: every job of run '{opened.card.id}' succeeded",
            hint="To run succeeded jobs again, name their label: --from LABEL.",
        )
    named = first_names([*selection.labels, *selection.jobs])
    return SubmissionRefusedError(
        f"no job to set {values} for: no job of {named} runs again in run '{opened.card.id}'",
        hint="'--dry-run' shows what runs again; '--from LABEL' also runs succeeded jobs again.",
    )
