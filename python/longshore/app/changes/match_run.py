"""Matches a planned workflow with the jobs of a run: which results stay, and why the other jobs run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from longshore.app.changes.output_changes import OutputChanges, Stamps, collect_stamps
from longshore.app.runs.events import all_events
from longshore.app.runs.open_run import OpenRun, map_index_errors
from longshore.app.submit.transform import RunPlan
from longshore.contract.service import RunPaths
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import replay
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.run_state import RunState
from longshore.model.file_identity import external_files
from longshore.model.submission import describe_input_change
from longshore.model.tasks import Command
from longshore.model.workflow import JobSettings, OutputCheck, Workflow
from longshore.plan.workflow_match import (
    EarlierJobs,
    MatchJob,
    RunValues,
    WorkflowMatch,
    match_workflows,
    result_command,
)
from longshore.rundir.run_directory import read_made_from
from longshore.rundir.submissions import hash_file, look_at_inputs, read_input_files, submission_paths
from longshore.system.host import timestamp
from longshore.system.reading import have_same_content

RUN_FOLDER: Final = "<ENV:LONGSHORE_JOB_RUN_DIR>"
REPLAY: Final = "programs/replay.py"
"""Program that is shipped with Longshore: another version of it is no change of the run."""
_ENDS: Final[Mapping[int, str]] = {
    JobCode.FAILED: "failed",
    JobCode.DELETED: "was cancelled",
    JobCode.PRUNED: "waited for one that failed or was cancelled",
}


def read_state(opened: OpenRun, stamps: Stamps | None = None) -> tuple[JobTable, RunState]:
    """Return the jobs of a run and their state; `stamps` gets those of their outputs."""
    jobs = JobTable(opened.run, "names", "parents")
    with map_index_errors(opened.run):
        events = all_events(opened)
        return jobs, replay(jobs, events if stamps is None else collect_stamps(events, stamps))


def match_run(
    opened: OpenRun, plan: RunPlan, *, lost_outputs: Callable[[str], str] | None = None, by_content: bool = False
) -> WorkflowMatch:
    """Match a plan with the jobs of a run.

    `lost_outputs` returns why the file of an earlier output cannot be used, by its path as the earlier run has it;
    by default it must be there. `by_content` compares inputs by their content.
    """
    stamps: Stamps = {}
    jobs, state = read_state(opened, stamps)
    old = _EarlierReader(opened, jobs, earlier_values(opened))
    ends = {job: _ENDS.get(code, "was not over") for job, code in enumerate(state.code) if code != JobCode.SUCCEEDED}
    unchecked = {job.name for job in plan.workflow if job.settings.rules.check_outputs is OutputCheck.NONE}
    stamps = {job: each for job, each in stamps.items() if jobs.names[job] not in unchecked}
    earlier = EarlierJobs(
        jobs=list(old.jobs()),
        ends=ends,
        changed_inputs=old.changed_inputs(plan.copies, by_content=by_content),
        lost_outputs=old.lost_outputs(lost_outputs or _why_lost, stamps, without=ends),
    )
    final = len(plan.workflow) - 1 if plan.workflow.final else None
    planned = list(_planned_jobs(plan, planned_values(plan)))
    return match_workflows(earlier, planned, final=final, identify=plan.run.file_identity().of)


def earlier_values(opened: OpenRun) -> RunValues:
    """Return the values of a run that its commands and paths contain."""
    card = opened.card
    return run_values(prepared_root(opened.run), card.name, card.id, card.created_at)


def planned_values(plan: RunPlan) -> RunValues:
    """Return the values of a planned run that its commands and paths contain."""
    configuration = plan.run.configuration
    return run_values(plan.run.paths.root, configuration.text("uniqProcName"), plan.run.id, configuration.layers.now)


def run_values(root: Path, name: str, run_id: str, time: float) -> RunValues:
    """Return the values that commands of a run contain, and those of another run do not."""
    return RunValues.of({"submitPath": str(root), "uniqProcName": name, "runId": run_id, "timestamp": timestamp(time)})


def locate_output(root: Path, was: Path, path: str) -> str:
    """Return where an output of a run is, by its path in the workflow; the run may have moved since it was at `was`."""
    found = root / path
    return str(root / found.relative_to(was) if found.is_relative_to(was) else found)


def prepared_root(run: RunPaths) -> Path:
    """Return the path that a run directory had when its workflow was made: commands have it."""
    made_from = read_made_from(submission_paths(run))
    return Path(made_from.root) if made_from else run.root


class _EarlierReader:
    """Reads the jobs of the earlier workflow, and what became of their files."""

    def __init__(self, opened: OpenRun, jobs: JobTable, values: RunValues) -> None:
        self._opened = opened
        self._jobs = jobs
        self._values = values
        self._files = {file.name: file for file in jobs.files()}
        self._paths = {name: file.path for name, file in self._files.items()}
        submission = submission_paths(opened.run).root
        self._folder = "" if submission == opened.run.root else f"{submission.relative_to(opened.run.root).as_posix()}/"
        """Folder of the newest submission, as paths and commands name it."""
        self._stored = [jobs[job] for job in range(len(jobs))]
        self._made = {name for stored in self._stored for name in stored.outputs}

    def jobs(self) -> Iterator[MatchJob]:
        """Yield the jobs in order."""
        add_programs = _ProgramTexts(lambda name: _content(newest_file(self._opened.run, name)))
        paths = {name: self._values.name_values(path.removeprefix(self._folder)) for name, path in self._paths.items()}
        for job, stored in enumerate(self._stored):
            settings = self._jobs.settings(job)
            command = _without_folder(stored.c, self._folder) if self._folder else stored.c
            yield MatchJob(
                name=stored.name,
                label=settings.label,
                command=add_programs(command, result_command(command, settings, stored.env, self._values)),
                parents=stored.p,
                inputs=tuple(paths[name] for name in stored.inputs),
                outputs=tuple(paths[name] for name in stored.outputs),
            )

    def changed_inputs(self, copies: Mapping[str, Path], *, by_content: bool) -> dict[int, str]:
        """Return the change of an input file that no job makes, by job; `copies` has those that the run copies."""
        recorded = read_input_files(submission_paths(self._opened.run)).files
        external = {*external_files(self._files, self._made).values()}
        now = look_at_inputs(external, with_content=by_content)
        changes = {
            path: change
            for path in external
            if (change := describe_input_change(path, recorded.get(path), now.get(path)))
        }
        for name, source in copies.items():
            file = newest_file(self._opened.run, name)
            if not have_same_content(file, source):
                path = file.relative_to(self._opened.run.root).as_posix()
                changes[path] = f"'{source}' has another content now"
        return self._first(changes, lambda stored: stored.inputs) if changes else {}

    def lost_outputs(
        self, why_lost: Callable[[str], str], stamps: Stamps, *, without: Mapping[int, str]
    ) -> dict[int, str]:
        """Return why an output of a job cannot be used, by job."""
        found: dict[int, str] = {}
        root, was = self._opened.run.root, prepared_root(self._opened.run)
        paths = [[locate_output(root, was, self._paths[name]) for name in stored.outputs] for stored in self._stored]
        changes = OutputChanges(paths, stamps)
        for job, outputs in enumerate(paths):
            for path in outputs if job not in without else ():
                if why := why_lost(path) or changes.describe(job, path):
                    found[job] = why
                    break
        return found

    def _first(self, changes: Mapping[str, str], names_of: Callable[..., Iterable[str]]) -> dict[int, str]:
        found: dict[int, str] = {}
        for job, stored in enumerate(self._stored):
            for name in names_of(stored):
                if change := changes.get(self._paths[name]):
                    found[job] = f"its input {change}"
                    break
        return found


def _planned_jobs(plan: RunPlan, values: RunValues) -> Iterator[MatchJob]:
    """Yield the jobs of a plan in order."""
    workflow: Workflow = plan.workflow
    copies = plan.copies
    add_programs = _ProgramTexts(lambda name: _content(copies[name]) if name in copies else plan.programs.get(name))
    paths = {name: values.name_values(file.path) for name, file in workflow.files.items()}
    for job, parents in zip(workflow, workflow.links(), strict=True):
        text = result_command(job.command, job.settings, job.environment, values)
        yield MatchJob(
            name=job.name,
            label=job.label,
            command=add_programs(job.command, text),
            parents=parents,
            inputs=tuple(paths[name] for name in job.inputs),
            outputs=tuple(paths[name] for name in job.outputs),
        )


class _ProgramTexts:
    """Adds the texts of programs in the run directory to the commands that name them, such as the final job's."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self._texts: dict[str, str] = {}

    def __call__(self, command: Command, text: str) -> str:
        """Return the text of a command, with those of its programs."""
        words = (command,) if isinstance(command, str) else command
        for word in words:
            if not word.startswith(f"{RUN_FOLDER}/"):
                continue
            name = word.removeprefix(f"{RUN_FOLDER}/")
            if name not in self._texts:
                self._texts[name] = "" if name == REPLAY else self._read(name) or ""
            text = f"{text}\0{self._texts[name]}" if self._texts[name] else text
        return text


def newest_file(run: RunPaths, name: str) -> Path:
    """Return the path of a program or copied file: the newest submission has its own where it changed."""
    path = submission_paths(run).root / name
    return path if path.exists() else run.root / name


def _content(path: Path) -> str | None:
    """Return the text of a program, or a digest of one that is no text; ``None`` if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    text = content.decode(errors="replace")
    return text if text.encode() == content else hash_file(path).sha256


def _without_folder(command: Command, folder: str) -> Command:
    """Return a command that names programs as if they were in the run directory itself."""
    inner, plain = f"{RUN_FOLDER}/{folder}", f"{RUN_FOLDER}/"
    if isinstance(command, str):
        return command.replace(inner, plain)
    return tuple(word.replace(inner, plain) for word in command)


def _why_lost(path: str) -> str:
    return "" if Path(path).exists() else f"its output '{path}' is not there any more"


def settings_differ(before: JobSettings, now: JobSettings) -> bool:
    """Tell whether two settings differ, except in requests that only defaults and the host set."""
    same = {_REQUEST_FIELDS[key] for key in {*before.defaulted} & {*now.defaulted} if key in _REQUEST_FIELDS}
    names = [name for name in before.request.__struct_fields__ if name not in same]
    if any(getattr(before.request, name) != getattr(now.request, name) for name in names):
        return True
    fields = (name for name in before.__struct_fields__ if name not in {"request", "defaulted"})
    return any(getattr(before, name) != getattr(now, name) for name in fields)


_REQUEST_FIELDS: Final = {
    "requestCpus": "cpus",
    "requestMemory": "memory_b",
    "requestDisk": "disk_b",
    "requestWalltime": "walltime_s",
}
"""Field of a request per key."""
