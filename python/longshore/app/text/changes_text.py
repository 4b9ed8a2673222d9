"""Text of what changed since a run was made, and of what becomes of its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from longshore.app.changes.compare import RunComparison
from longshore.model.wording import count_noun
from longshore.plan.workflow_match import WorkflowMatch

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
