"""Outputs that are gone although jobs of a restart read them: their jobs succeeded, so that a restart keeps them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from longshore.app.inspect.find_jobs import first_names
from longshore.app.runs.open_run import OpenRun
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.run_state import RunState
from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.model.tasks.file import is_remote
from longshore.model.wording import count_noun
from longshore.model.workflow.attempt_rules import OutputCheck
from longshore.world.runs.manifests import submission_paths
from longshore.world.runs.run_directory import read_made_from


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
        made_from = read_made_from(submission_paths(opened.run))
    except RunUnreadableError:
        # The file only says what the run was made from: a restart goes on without it.
        made_from = None
    return Path(made_from.root) if made_from else opened.run.root


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
                if not is_remote(path) and not (place := _locate(root, was, path)).exists():
                    yield LostOutput(place, job, reader)


def _locate(root: Path, was: Path, path: str) -> Path:
    """Return where an output is; the run may have moved since it was at `was`."""
    found = root / path
    return root / found.relative_to(was) if found.is_relative_to(was) else found
