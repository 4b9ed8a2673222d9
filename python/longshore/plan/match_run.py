"""Which results of a run stay for a changed workflow, by its jobs and their outputs, and why other jobs run."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from longshore.contract.service import RUN_FOLDER, RunPaths
from longshore.jobs.commands import full_command
from longshore.model.event import Ended, Event, FileStamp
from longshore.model.file_identity import external_files
from longshore.model.submission import describe_input_change
from longshore.model.tasks import Command
from longshore.model.workflow import JobSettings, OutputCheck, Workflow
from longshore.plan.acquire import REPLAY
from longshore.plan.run_plan import RunPlan
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_made_from
from longshore.rundir.submissions import hash_file, look_at_inputs, read_input_files, submission_paths
from longshore.runstate.events import all_events
from longshore.runstate.open_run import OpenRun, map_index_errors
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode, RunState
from longshore.system.host import timestamp
from longshore.system.reading import have_same_content

# Matches the jobs of a workflow with those of an earlier one, and decides which results stay. Two jobs are the
# same if they have the same name. A result stays if the job succeeded, and the same command would make it from the same
# inputs. Requests, retries and priorities do not change a result, so they do not count. The reason is in decision 0082.


_PARTS: Final = "\0"
_DIRECTORY: Final = "\1"
"""Begins the part of a command's text that is its working directory."""


class MatchReason(StrEnum):
    """Reason why a job runs, or why its result is kept."""

    KEPT = "kept"
    """It succeeded, with the same command and inputs."""
    NEW = "new"
    """The earlier workflow has no job of its name."""
    UNFINISHED = "unfinished"
    """It did not succeed."""
    COMMAND = "command"
    """Its command, environment or directory changed."""
    INPUTS = "inputs"
    """It reads or writes other files, waits for other jobs, or an input file changed."""
    OUTPUTS = "outputs"
    """What it made is not there any more, was written since by something else, or cannot be taken over."""
    READS = "reads"
    """It waits for a job that runs."""
    FINAL = "final"
    """It is the final job, which gathers what the others make."""


class MatchJob(NamedTuple):
    """A job as far as its result depends on it.

    `command` is the text of `result_command`. `parents` are numbers of jobs of the same workflow. `inputs` and
    `outputs` are paths, with the values of the run replaced by their names.
    """

    name: str
    label: str
    command: str
    parents: Sequence[int]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class EarlierJobs(NamedTuple):
    """Jobs of the earlier workflow.

    `ends` has a text per job that did not succeed, such as ``failed``, by number. `changed_inputs` and `lost_outputs`
    have the reason per job for which files changed: ``'x.fits' has another size``.
    """

    jobs: Sequence[MatchJob]
    ends: Mapping[int, str]
    changed_inputs: Mapping[int, str] = {}
    lost_outputs: Mapping[int, str] = {}


class JobMatch(NamedTuple):
    """What becomes of a job: its reason, a detail for people, and its number in the earlier workflow."""

    reason: MatchReason
    detail: str = ""
    earlier: int | None = None

    @property
    def is_kept(self) -> bool:
        """Whether its result is kept, so that it does not run."""
        return self.reason is MatchReason.KEPT

    @property
    def is_changed(self) -> bool:
        """Whether an earlier result of it, even a partial one, is void: it runs from its first task on."""
        return self.reason not in {MatchReason.KEPT, MatchReason.UNFINISHED}


class WorkflowMatch(NamedTuple):
    """Match of a workflow with an earlier one: `jobs` in order, and the numbers of earlier jobs that are `gone`."""

    jobs: Sequence[JobMatch]
    gone: Sequence[int]

    @property
    def pairs(self) -> dict[int, int]:
        """Numbers of the jobs that both workflows have, by those of the earlier one."""
        return {match.earlier: number for number, match in enumerate(self.jobs) if match.earlier is not None}

    @property
    def changed(self) -> list[int]:
        """Numbers of the jobs that both workflows have, and whose earlier result is void."""
        return [number for number, match in enumerate(self.jobs) if match.earlier is not None and match.is_changed]

    @property
    def kept(self) -> list[int]:
        """Numbers of the jobs whose results are kept."""
        return [number for number, match in enumerate(self.jobs) if match.is_kept]


class RunValues(NamedTuple):
    """Values of one run that commands and paths contain, each with its name: other runs have others."""

    values: tuple[tuple[str, str], ...]
    """Pairs of value and name, longest value first."""

    @classmethod
    def of(cls, names: Mapping[str, str]) -> RunValues:
        """Return the values of a run, given by name; empty ones do not count."""
        pairs = [(value, name) for name, value in names.items() if value]
        return cls(tuple(sorted(pairs, key=lambda pair: -len(pair[0]))))

    def name_values(self, text: str) -> str:
        """Replace each value in a text by its name in braces."""
        for value, name in self.values:
            if value in text:
                text = text.replace(value, f"{{{name}}}")
        return text


def result_command(command: Command, settings: JobSettings, environment: Mapping[str, str], values: RunValues) -> str:
    """Text of all that a job's result depends on besides its files: command, set-up, environment and directory."""
    full = full_command(command, settings)
    words = (full,) if isinstance(full, str) else full
    variables = sorted({**settings.environment, **environment}.items())
    parts = [*words, *(f"${name}={value}" for name, value in variables)]
    parts.append(f"{_DIRECTORY}{settings.working_directory or ''}")
    return values.name_values(_PARTS.join(parts))


def match_workflows(
    earlier: EarlierJobs,
    jobs: Sequence[MatchJob],
    *,
    final: int | None = None,
    identify: Callable[[str], str] = str,
) -> WorkflowMatch:
    """Match jobs, parents first, with those of an earlier workflow; `final` is the number of the final job.

    `identify` returns the same text for all paths of one file.
    """
    known = {job.name: number for number, job in enumerate(earlier.jobs)}
    matches: list[JobMatch] = []
    for number, job in enumerate(jobs):
        old = known.pop(job.name, None)
        match = _match_job(earlier, old, job, jobs, matches, identify=identify)
        if match.is_kept and number == final and not all(each.is_kept for each in matches):
            match = JobMatch(MatchReason.FINAL, "it gathers what the others make", old)
        matches.append(match)
    return WorkflowMatch(matches, sorted(known.values()))


def _match_job(
    earlier: EarlierJobs,
    old: int | None,
    job: MatchJob,
    jobs: Sequence[MatchJob],
    matches: Sequence[JobMatch],
    *,
    identify: Callable[[str], str],
) -> JobMatch:
    """Decide about one job, whose parents are decided."""
    if old is None:
        return JobMatch(MatchReason.NEW, "there was no job of this name")
    before = earlier.jobs[old]
    if before.label != job.label or before.command != job.command:
        return JobMatch(MatchReason.COMMAND, describe_command_change(before.command, job.command), old)
    if detail := _describe_file_change(before, job, identify) or earlier.changed_inputs.get(old, ""):
        return JobMatch(MatchReason.INPUTS, detail, old)
    names = {earlier.jobs[parent].name for parent in before.parents}
    if detail := _describe_names("waits for", names, {jobs[parent].name for parent in job.parents}):
        return JobMatch(MatchReason.INPUTS, detail, old)
    running = next((parent for parent in job.parents if matches[parent].is_changed), None)
    if running is not None:
        return JobMatch(MatchReason.READS, f"it waits for '{jobs[running].name}', which runs", old)
    if end := earlier.ends.get(old):
        return JobMatch(MatchReason.UNFINISHED, f"it {end}", old)
    waiting = next((parent for parent in job.parents if not matches[parent].is_kept), None)
    if waiting is not None:
        return JobMatch(MatchReason.READS, f"it waits for '{jobs[waiting].name}', which runs", old)
    if detail := earlier.lost_outputs.get(old, ""):
        return JobMatch(MatchReason.OUTPUTS, detail, old)
    return JobMatch(MatchReason.KEPT, "it succeeded, with the same command and inputs", old)


def _describe_file_change(before: MatchJob, job: MatchJob, identify: Callable[[str], str]) -> str:
    for verb, old, new in (("reads", before.inputs, job.inputs), ("writes", before.outputs, job.outputs)):
        # Nearly all jobs have the same paths.
        if {*old} != {*new} and (change := _describe_names(verb, map(identify, old), map(identify, new))):
            return change
    return ""


def _describe_names(verb: str, before: Iterable[str], now: Iterable[str]) -> str:
    """Describe a difference between two sets of names; empty if they are equal."""
    old, new = {*before}, {*now}
    if added := sorted(new - old):
        return f"it {verb} '{added[0]}' now"
    if removed := sorted(old - new):
        return f"it {verb} '{removed[0]}' no more"
    return ""


def describe_command_change(before: str, now: str) -> str:
    """Describe how the texts of two commands differ, by the first parts that do."""
    old, new = before.split(_PARTS), now.split(_PARTS)
    for was, part in zip(old, new, strict=False):
        if was != part and (variable := _VARIABLE.match(part)):
            # Its value may be a secret.
            return f"the variable '{variable[1]}' of its environment has another value now, or is new"
        if was.startswith(_DIRECTORY) and part.startswith(_DIRECTORY) and was != part:
            return f"it runs in '{part[1:]}' now, and ran in '{was[1:]}'"
        if was != part:
            return f"its command has {_excerpt(part, was)} now, and had {_excerpt(was, part)}"
    return "its command has other words or variables now"


_EXCERPT: Final = 40
_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)=", re.ASCII)


def _excerpt(text: str, other: str) -> str:
    """Quote the part of a text that differs from another, from the beginning of the shell's word that differs."""
    place = next((place for place, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), len(other))
    begin = _word_start(text, min(place, len(text)))
    words = " ".join(text[begin:].split())
    shown = words if len(words) <= _EXCERPT else words[:_EXCERPT] + "..."
    # Quotation marks that the text does not have itself.
    mark = next((mark for mark in "'\"`" if mark not in shown), "'")
    return f"{mark}{'... ' if text[:begin].strip() else ''}{shown}{mark}"


def _word_start(text: str, place: int) -> int:
    """Return where the shell's word at a place begins: blanks between quotation marks end no word."""
    begin, quote = 0, ""
    for at, sign in enumerate(text[:place]):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign.isspace():
            begin = at + 1
    # A long text between marks would hide what differs in it.
    return begin if place - begin < _EXCERPT // 2 else text.rfind(" ", 0, place) + 1


# Tells whether outputs of an earlier run are still as their jobs left them, by the recorded size and time.


Stamps: TypeAlias = dict[int, tuple[FileStamp, ...]]
"""Stamps of the outputs of each success, by job; those that did not record any are absent."""


def collect_stamps(events: Iterable[Event], stamps: Stamps) -> Iterator[Event]:
    """Yield events, and collect the stamps of the newest success of each job from them."""
    for event in events:
        if isinstance(event, Ended):
            if event.cause is None and event.stamps:
                stamps[event.j] = event.stamps
            else:
                stamps.pop(event.j, None)
        yield event


def look_at_file(path: str) -> tuple[FileStamp, bool]:
    """Return the stamp of a file, and whether it is a folder; raises `OSError` if it is not there."""
    status = os.stat(path)  # noqa: PTH116 - a text is what there is
    return FileStamp(status.st_size, status.st_mtime_ns), stat.S_ISDIR(status.st_mode)


class OutputChanges:
    """Recorded and present state of the outputs of an earlier run.

    `outputs` has the paths per job. An output of several jobs may be as any of them left it.
    """

    def __init__(self, outputs: Sequence[Sequence[str]], stamps: Mapping[int, Collection[FileStamp]]) -> None:
        self._outputs = outputs
        self._stamps = stamps
        makers = Counter(path for paths in outputs for path in set(paths))
        self._shared: dict[str, set[FileStamp]] = {path: set() for path, number in makers.items() if number > 1}
        for job, paths in enumerate(outputs) if self._shared else ():
            for path in self._shared.keys() & set(paths):
                self._shared[path].update(stamps.get(job, ()))

    def describe(self, job: int, path: str) -> str:
        """Describe how an output of a job changed since; empty if it did not, or nothing was recorded."""
        recorded = self._stamps.get(job, ())
        if not recorded:
            return ""
        try:
            now, is_folder = look_at_file(path)
        except OSError as error:
            return f"its output '{path}' cannot be read: {error.strerror}"
        known = {*recorded, *self._shared.get(path, ())}
        if not is_folder:
            return "" if now in known else f"its output '{path}' was written since by something else"
        # The size of a folder depends on the file system, and means nothing.
        if now.mtime_ns in {stamp.mtime_ns for stamp in known} or path in self._folders:
            return ""
        return f"entries of its output '{path}', a folder, were added or removed since by something else"

    @cached_property
    def _folders(self) -> set[str]:
        """Folders in which other outputs lie: their time says nothing of their own job."""
        found: set[str] = set()
        for path in (path for paths in self._outputs for path in paths):
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return found


# Matches a planned workflow with the jobs of a run on disk.


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
