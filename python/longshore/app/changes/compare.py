"""Comparison of a run's sources with their present content; only changes of jobs count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore import __version__
from longshore.app.changes.match_run import match_run, newest_file, read_state, settings_differ
from longshore.app.changes.replan import RecordedSources, describe_stale_graph, read_sources, replan
from longshore.app.progress import Progress, SilentProgress, hidden_secrets
from longshore.app.runs.open_run import OpenRun, first_names
from longshore.app.submit.fingerprint import ChangedValue, configuration_values, find_changed_values
from longshore.app.submit.transform import RunPlan
from longshore.errors import LongshoreError, Origin
from longshore.model.wording import count_noun
from longshore.plan.workflow_match import MatchReason, WorkflowMatch
from longshore.rundir.run_directory import is_own_run
from longshore.system.reading import can_see_file, can_see_folder, describe_change, have_same_content

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
            plan = replan(opened, sources, progress or SilentProgress(), sets=sets, graph_folder=graph_folder)
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
        shown = ", ".join(names[:_MAX_JOBS])
        others = f" and {len(names) - _MAX_JOBS} more" if len(names) > _MAX_JOBS else ""
        yield f"jobs {kind}: {shown}{others}"


_KINDS: Final = {
    "new": "new",
    "command": "with another command",
    "inputs": "with other inputs or outputs",
    "outputs": "whose output is gone or was written since",
    "reads": "that wait for these",
    "final": "that gather the results",
}
"""Words per reason of a match."""
