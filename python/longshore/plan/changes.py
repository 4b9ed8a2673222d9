"""What changed since a run was made, by planning it anew: its sources, and the jobs that a restart would run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Final

import msgspec
import yaml
from msgspec.structs import replace

from longshore import __version__
from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.layers import Overrides
from longshore.contract.service import RestartChanges, RunPaths
from longshore.errors import DECODE_ERRORS, LongshoreError, Origin, RunNotFoundError, SubmissionRefusedError
from longshore.graphs.quantum_graph import RUN_GRAPH
from longshore.model.states import JobState
from longshore.model.submission import Fingerprint
from longshore.model.wording import count_noun, did_you_mean, first_of
from longshore.plan.acquire import AcquiredRun, takes_quantum_graph
from longshore.plan.fingerprint import (
    ChangedValue,
    ConfigurationValues,
    configuration_values,
    find_changed_values,
    read_recorded_values,
)
from longshore.plan.match_run import (
    JobMatch,
    MatchReason,
    WorkflowMatch,
    match_run,
    newest_file,
    read_state,
    settings_differ,
)
from longshore.plan.quantum_graph import has_other_command, read_kept_graph
from longshore.plan.resolved_run import ExistingRun, ResolvedRun, resolve_run
from longshore.plan.run_plan import RunPlan
from longshore.plan.script_run import plan_script
from longshore.plan.stages import advance_run
from longshore.progress import Progress, QuietProgress, RecordingProgress
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import is_own_run, read_made_from
from longshore.rundir.submissions import submission_paths
from longshore.runstate.open_run import OpenRun, first_names
from longshore.runstate.restart_selection import RestartReason
from longshore.runstate.run_state import ACTIVE, JOB_STATES, OVER, JobCode
from longshore.system.reading import can_see_file, can_see_folder, describe_change, have_same_content

# Plans a run anew: its configuration and payload as they are now, with the run's own name, time and directory.


_SCRIPT: Final = "bps_iscustom"
"""Attribute of runs of one script."""


class RecordedSources(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest submission of a run was made from.

    `paths` has the recorded files. `values` are those of the merged configuration.
    """

    paths: RunPaths
    fingerprint: Fingerprint
    values: ConfigurationValues

    @property
    def file(self) -> Path:
        """The user's file."""
        return Path(self.fingerprint.folder, self.fingerprint.file)


def read_sources(opened: OpenRun) -> RecordedSources | None:
    """Read what the newest submission was made from; ``None`` if that is not recorded, or no longer readable."""
    paths = submission_paths(opened.run)
    try:
        fingerprint = read_made_from(paths)
        if fingerprint is None:
            return None
        values = read_recorded_values(paths.merged_config(opened.card.name), paths.origins)
    except (LongshoreError, OSError, yaml.YAMLError, *DECODE_ERRORS):
        return None
    return RecordedSources(paths=paths, fingerprint=fingerprint, values=values)


def recorded_keys(opened: OpenRun) -> set[str]:
    """Return the top-level keys of the configuration that a run was made from; none where that is not recorded."""
    sources = read_sources(opened)
    return {key.partition(".")[0] for key in sources.values} if sources else set()


def replan(
    opened: OpenRun,
    sources: RecordedSources,
    progress: Progress,
    *,
    sets: Sequence[str] = (),
    graph_folder: Path | None = None,
) -> RunPlan:
    """Plan a run as if it were prepared now; `sets` are added to those of its first submission.

    A quantum graph is not made again, except with `graph_folder`, a folder of the run that is created for it. Raises
    `LongshoreError` if the run could not be prepared now.
    """
    made = sources.fingerprint
    existing = ExistingRun(
        name=opened.card.name,
        root=opened.run.root,
        service=opened.card.service,
        generated=[(key, value, origin) for key, (value, origin) in sources.values.items()],
    )
    with chdir(made.folder):
        run = resolve_run(
            Path(made.file),
            Overrides(made.options, (*made.sets, *sets)),
            now=opened.card.created_at,
            progress=progress,
            run_id=opened.card.id,
            existing=existing,
        )
        recording = RecordingProgress(progress)
        if is_script_run(opened):
            return plan_script(run, recording)
        record: ResolvedRun | AcquiredRun = run
        if takes_quantum_graph(run.configuration) and (name := _find_graph(opened.run)):
            if graph_folder is None:
                record = AcquiredRun(run=run, payload=read_kept_graph(run, name, progress))
            else:
                record = _make_graph(run, graph_folder, recording)
        return advance_run(record, RunPlan, recording)


def describe_stale_graph(opened: OpenRun, sources: RecordedSources, run: ResolvedRun, files: Sequence[str]) -> str:
    """Describe why the quantum graph of a run may not be what would be made now; empty if it is, or there is none.

    `files` are sentences about changed files of the payload.
    """
    if not takes_quantum_graph(run.configuration) or not (name := _find_graph(opened.run)):
        return ""
    made_in = Path(sources.fingerprint.root)
    why = (
        "'createQuantumGraph' has other words now"
        if has_other_command(run, opened.run.root / name, made_in=made_in)
        else next(iter(files), "")
    )
    return f"the quantum graph stays, although {why}: --with-changes --new-graph makes it again" if why else ""


def is_script_run(opened: OpenRun) -> bool:
    """Return whether a run has one job of a user's script (``longshore submitcmd``)."""
    return bool(opened.card.attributes.get(_SCRIPT))


def _make_graph(run: ResolvedRun, folder: Path, progress: RecordingProgress) -> AcquiredRun:
    """Make the quantum graph of a run in another folder of its directory."""
    made = advance_run(replace(run, paths=RunPaths(folder)), AcquiredRun, progress).payload
    below = folder.relative_to(run.paths.root).as_posix()
    files = {
        name: msgspec.structs.replace(file, path=f"{below}/{file.path}") if name == RUN_GRAPH else file
        for name, file in made.graph.files.items()
    }
    graph = msgspec.structs.replace(made.graph, files=files)
    return AcquiredRun(run=run, payload=replace(made, graph=graph))


def _find_graph(run: RunPaths) -> str | None:
    """Return the path of the run's quantum graph, relative to the run directory."""
    return next((file.path for file in JobTable(run).files() if file.name == RUN_GRAPH), None)


# Comparison of a run's sources with their present content; only changes of jobs count.


_PINNED: Final = frozenset({"submitPath"})
"""Keys whose value is the run's own, whatever is written."""


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the newest submission of a run was made.

    `keys` are the keys of the configuration with another value, `files` sentences about files of the payload. `plan`
    and `match` are absent if the run could not be prepared now, because of `error`. `settings` has the numbers of jobs
    of the plan that would run with other settings, such as requests. `note` says why nothing was compared.
    """

    keys: Sequence[ChangedValue] = ()
    files: Sequence[str] = ()
    plan: RunPlan | None = None
    match: WorkflowMatch | None = None
    error: LongshoreError | None = None
    settings: Sequence[int] = ()
    names: Sequence[str] = ()
    """Names of the jobs of the plan."""
    gone: Sequence[str] = ()
    """Names of the jobs that the plan lacks."""
    sets: tuple[str, ...] = ()
    asked_only: bool = False
    """Whether only ``--set`` of this command changes jobs, so that the user asked for all of it."""
    note: str = ""
    stale_graph: str = ""
    """Why the quantum graph, which stays, may not be what would be made now; a sentence without its end."""
    reasons: Mapping[str, Mapping[MatchReason, int]] = msgspec.field(default_factory=dict)
    """Number of jobs per label and reason."""

    @property
    def differs(self) -> bool:
        """Whether a restart with these changes would run other jobs than one without."""
        if self.match is None:
            return self.error is not None
        return bool(self.gone or self.settings) or any(each.reason in _CHANGES for each in self.match.jobs)

    @property
    def lost_outputs(self) -> list[str]:
        """Names of the jobs whose outputs alone make them run: they are gone, or were written by something else."""
        jobs = self.match.jobs if self.match else ()
        return [name for name, each in zip(self.names, jobs, strict=False) if each.reason is MatchReason.OUTPUTS]

    def describe_lost_outputs(self) -> str:
        """Return a note for a restart that does not take the changes."""
        return (
            f"outputs of {first_names(self.lost_outputs)} are gone, or were written since by something else: "
            "--with-changes makes them again"
        )


_CHANGES: Final = frozenset({MatchReason.NEW, MatchReason.COMMAND, MatchReason.INPUTS})


def compare_run(
    opened: OpenRun, sets: tuple[str, ...] = (), *, graph_folder: Path | None = None, progress: Progress | None = None
) -> RunComparison:
    """Compare the sources of a run's newest submission with their present content.

    `sets` are the ``KEY=VALUE`` of this command. With `graph_folder`, a quantum graph is made again there. An error of
    the present configuration is in the result.
    """
    sources = read_sources(opened)
    if why := _why_not_compared(opened, sources):
        return RunComparison(note=why, sets=sets)
    assert sources is not None
    files = list(_changed_files(opened, sources))
    try:
        with hidden_secrets():
            plan = replan(opened, sources, progress or QuietProgress(), sets=sets, graph_folder=graph_folder)
    except LongshoreError as error:
        if sets or files or _is_file_changed(sources):
            return RunComparison(files=files, error=error, sets=sets)
        # Nothing that the user wrote changed: the run goes on as it would have.
        return RunComparison(note=f"the run could not be prepared now: {error.message}", sets=sets)
    stale_graph = "" if graph_folder else describe_stale_graph(opened, sources, plan.run, files)
    comparison = _compare_plan(opened, sources, plan, [*files, *_changed_copies(opened, plan)], sets)
    is_asked = bool(sets) and comparison.differs and graph_folder is None and _is_asked_only(opened, comparison)
    return replace(comparison, asked_only=is_asked, stale_graph=stale_graph)


def _is_asked_only(opened: OpenRun, comparison: RunComparison) -> bool:
    if not comparison.files and all(_is_set(change.origin) for change in comparison.keys):
        return True
    # What else changed, such as a variable of the environment, may change no job.
    others = compare_run(opened)
    return not others.differs and not others.note


def _compare_plan(
    opened: OpenRun, sources: RecordedSources, plan: RunPlan, files: list[str], sets: tuple[str, ...]
) -> RunComparison:
    same_version = opened.card.longshore == __version__
    now = configuration_values(plan.run.configuration)
    keys = [
        change
        for change in find_changed_values(sources.values, now, same_version=same_version)
        if change.key not in _PINNED
    ]
    match = match_run(opened, plan)
    names = [job.name for job in plan.workflow]
    jobs, _ = read_state(opened)
    gone = [jobs.names[job] for job in match.gone]
    if not same_version and not keys and not files and not gone and len(match.pairs) == len(names):
        return RunComparison(sets=sets, plan=plan)
    settings = [
        number
        for number, (job, each) in enumerate(zip(plan.workflow, match.jobs, strict=True))
        if each.earlier is not None and not each.is_kept and settings_differ(jobs.settings(each.earlier), job.settings)
    ]
    reasons: dict[str, dict[MatchReason, int]] = {}
    for job, each in zip(plan.workflow, match.jobs, strict=True):
        counts = reasons.setdefault(job.label, {})
        counts[each.reason] = counts.get(each.reason, 0) + 1
    return RunComparison(
        keys=keys,
        files=files,
        plan=plan,
        match=match,
        settings=settings,
        names=names,
        gone=gone,
        sets=sets,
        reasons=reasons,
    )


def _why_not_compared(opened: OpenRun, sources: RecordedSources | None) -> str:
    """Return why a run cannot be compared with its sources; the restart then runs it as it was."""
    if not is_own_run(opened.run.root):
        return "the run belongs to another user, so its configuration is not read anew"
    if sources is None:
        return "what the run was made from is not recorded, or its record cannot be read"
    if not can_see_folder(Path(sources.fingerprint.folder)) or not can_see_file(sources.file):
        return f"'{sources.file}', which the run was made from, is not there any more"
    return ""


def _changed_files(opened: OpenRun, sources: RecordedSources) -> Iterator[str]:
    for file in sources.fingerprint.payload:
        if what := describe_change(file, opened.run.root):
            yield f"'{file.path}' {what}"


def _changed_copies(opened: OpenRun, plan: RunPlan) -> Iterator[str]:
    for name, source in plan.copies.items():
        if not have_same_content(newest_file(opened.run, name), source):
            yield f"'{source}' has another content than its copy in the run"


def _is_file_changed(sources: RecordedSources) -> bool:
    """Return whether the user's file has another content than when it was read."""
    try:
        return (sources.paths.inputs / sources.file.name).read_bytes() != sources.file.read_bytes()
    except OSError:
        return True


def _is_set(origin: Origin | None) -> bool:
    return origin is not None and origin.layer == "command line"


# Words for what changed, and for what becomes of the jobs.


_MAX_KEYS: Final = 10
_MAX_JOBS: Final = 3
"""Jobs that are named per reason, where not all are."""


def change_lines(comparison: RunComparison, *, has_verdicts: bool = False) -> Iterator[str]:
    """Yield a line per change of the configuration and of files, and per kind of changed job.

    With `has_verdicts`, a line per job (`verdict_lines`) tells which jobs changed.
    """
    for change in comparison.keys[:_MAX_KEYS]:
        place = f"{change.origin}: " if change.origin else ""
        yield f"{place}{change.message}"
    if (more := len(comparison.keys) - _MAX_KEYS) > 0:
        yield f"and {count_noun(more, 'more key')}"
    yield from comparison.files
    if comparison.stale_graph:
        yield comparison.stale_graph
    if comparison.error is not None:
        place = f"{comparison.error.origin}: " if comparison.error.origin else ""
        yield f"the run could not be prepared now: {place}{comparison.error.message}"
    yield from _job_lines(comparison, has_verdicts=has_verdicts)


def unchanged_notes(comparison: RunComparison) -> Iterator[str]:
    """Yield what a comparison without a difference says for all that."""
    if comparison.differs:
        return
    if comparison.note:
        yield f"the run goes on as it was: {comparison.note}"
    if comparison.stale_graph:
        yield comparison.stale_graph
    if comparison.lost_outputs:
        yield comparison.describe_lost_outputs()


def verdict_lines(names: Sequence[str], match: WorkflowMatch, gone: Sequence[str]) -> Iterator[str]:
    """Yield a line per job: why it runs, or why its result is kept."""
    for name, each in zip(names, match.jobs, strict=True):
        yield f"{name}: {'kept' if each.is_kept else 'runs'} because {each.detail}"
    for name in gone:
        yield f"{name}: gone, because the workflow no longer has it"


def _job_lines(comparison: RunComparison, *, has_verdicts: bool) -> Iterator[str]:
    if comparison.match is None:
        return
    found: dict[str, list[str]] = {}
    matches = () if has_verdicts else zip(comparison.names, comparison.match.jobs, strict=True)
    for name, match in matches:
        if not match.is_kept and match.reason.value in _KINDS:
            found.setdefault(_KINDS[match.reason.value], []).append(name)
    if comparison.gone and not has_verdicts:
        found["gone"] = list(comparison.gone)
    if comparison.settings:
        found["run with other settings"] = [comparison.names[number] for number in comparison.settings]
    for kind, names in found.items():
        yield f"jobs {kind}: {first_of(names, _MAX_JOBS)}"


_KINDS: Final = {
    "new": "new",
    "command": "with another command",
    "inputs": "with other inputs or outputs",
    "outputs": "whose output is gone or was written since",
    "reads": "that wait for these",
    "final": "that gather the results",
}
"""Words per reason of a match."""


# Decides whether a restart takes what changed since its run was made.


def takes_changes(opened: OpenRun, comparison: RunComparison, *, is_wanted: bool) -> bool:
    """Return whether a restart takes the changes of a comparison; `is_wanted` tells whether the user asks for them.

    Changes that the user does not ask for are taken only if they all come from ``--set`` of the same command.

    Raises
    ------
    SubmissionRefusedError
        The user asks for changes, and nothing could be compared.
    LongshoreError
        The user asks for changes, and the run could not be prepared now.
    """
    is_asked = is_wanted or bool(comparison.sets)
    if comparison.note and is_asked:
        raise SubmissionRefusedError(
            f"run '{opened.card.id}' cannot take changes: {comparison.note}",
            hint="Run it as it was with --as-it-was, or submit its configuration as a new run.",
        )
    if comparison.error is not None and is_asked:
        raise comparison.error
    if not comparison.differs:
        return is_wanted and bool(comparison.lost_outputs)
    return is_wanted or comparison.asked_only


# Counts the jobs of a changed workflow that a restart would run, per label, state and reason.


_BAD_ENDS: Final = {
    JobCode.FAILED: RestartReason.FAILED,
    JobCode.DELETED: RestartReason.CANCELLED,
    JobCode.PRUNED: RestartReason.PRUNED,
}
_REASONS: Final = {MatchReason.NEW: RestartReason.NEW, MatchReason.FINAL: RestartReason.FINAL}


class ChangedJobCounts(msgspec.Struct):
    """Jobs that run, per label and state, and per label and reason; `set_for` counts those with values of ``--set``."""

    labels: dict[str, Counter[JobState]] = msgspec.field(default_factory=dict)
    reasons: dict[str, Counter[RestartReason]] = msgspec.field(default_factory=dict)
    unfinished: int = 0
    set_for: int = 0


def count_changed_jobs(opened: OpenRun, changes: RestartChanges, comparison: RunComparison) -> ChangedJobCounts:
    """Count the jobs of the changed workflow that a restart would run.

    Raises `SubmissionRefusedError` if jobs were active when the engine died, `RunNotFoundError` for an unknown name.
    """
    plan, match = comparison.plan, comparison.match
    assert plan is not None
    assert match is not None
    jobs, state = read_state(opened)
    if active := [job for job, code in enumerate(state.code) if code in {*ACTIVE, JobCode.UNDECIDED}]:
        names = first_names([jobs.names[job] for job in active])
        raise SubmissionRefusedError(
            f"jobs of run '{opened.card.id}' were active when its engine died: {names}",
            hint=f"Let them end first: longshore resume {opened.reference}",
        )
    labels = plan.workflow.counts()
    _require_names(opened, "label", (*changes.from_labels, *changes.selection.labels), labels)
    _require_names(opened, "job", changes.selection.jobs, frozenset(comparison.names))
    counts = ChangedJobCounts()
    named = _named_jobs(comparison, changes.from_labels)
    for job, each, reason in zip(plan.workflow, match.jobs, named, strict=True):
        code = JobCode.READY if each.earlier is None else JobCode(state.code[each.earlier])
        if why := _reason(each, code) or reason:
            counts.labels.setdefault(job.label, Counter())[JOB_STATES[code]] += 1
            counts.reasons.setdefault(job.label, Counter())[why] += 1
        elif each.is_kept:
            continue
        else:
            counts.unfinished += code != JobCode.HELD
        selection = changes.selection
        is_selected = selection.everything or job.name in selection.jobs or job.label in selection.labels
        counts.set_for += bool(changes.set) and is_selected
    return counts


def _named_jobs(comparison: RunComparison, from_labels: Collection[str]) -> Iterator[RestartReason | None]:
    """Yield per job whether its label, or that of an ancestor, is to run again."""
    assert comparison.plan is not None
    below: list[bool] = []
    for job, parents in zip(comparison.plan.workflow, comparison.plan.workflow.links(), strict=True):
        is_named = job.label in from_labels
        below.append(is_named or any(below[parent] for parent in parents))
        yield RestartReason.NAMED if is_named else RestartReason.DESCENDS if below[-1] else None


def _reason(each: JobMatch, code: JobCode) -> RestartReason | None:
    if each.is_changed:
        return _REASONS.get(each.reason, RestartReason.CHANGED)
    return _BAD_ENDS.get(code) if code in OVER else None


def _require_names(opened: OpenRun, kind: str, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise RunNotFoundError(
                f"run '{opened.card.id}' has no {kind} '{name}' with its changes", hint=did_you_mean(name, known) or ""
            )
