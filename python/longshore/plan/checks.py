"""Checks of jobs before they are written or submitted: requests, files, programs, limits of the kernel; all at once."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from longshore.config.combine import ClusterProfile
from longshore.config.command_lines import ShellLine
from longshore.config.lint import find_ineffective_sections, find_unmatched_sections
from longshore.config.merge import LayerRank, Node
from longshore.config.secrets import hide_secrets
from longshore.config.templates import Quotation
from longshore.contract.service import UNUSED, Problem, RunPaths, file_name
from longshore.jobs.commands import (
    command_argv,
    command_program,
    full_command,
    shell_program,
    substitute_files,
    substitute_inherited,
)
from longshore.model.file_identity import FileIdentity, external_files, same_files
from longshore.model.tasks import ClusteredGraph, Command, Composition, File, is_remote
from longshore.model.wording import quote_value
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.plan.configuration import Configuration
from longshore.plan.judgement import COMMAND_KEY, judge, summarize
from longshore.plan.lint import find_keys_unused_by_payload, find_payload_names, sort_findings
from longshore.plan.problems import MAX_LISTED, raise_problems
from longshore.plan.resolved_run import ResolvedRun, note_warnings
from longshore.progress import Progress
from longshore.rundir.job_table import JobTable
from longshore.system.reading import can_see, can_see_file, can_see_folder

# Programs that jobs start: checks that they and their interpreters exist, without running them.


_COMMAND_HINT: Final = "Correct 'runQuantumCommand', or begin it with 'sh -c' if an earlier job makes the program."
_LINE_HINT: Final = "Correct 'runQuantumCommand', unless its shell knows the program or does without."
_NOT_FOUND: Final = "is not on the PATH"
_LONGEST_FIRST_LINE: Final = 256
"""Bytes of a script in which Linux looks for its interpreter."""


class JobProgram(msgspec.Struct, frozen=True, kw_only=True):
    """Program that jobs of one label start, themselves or at the beginning of a line for the shell.

    `job` is the first of these jobs, `jobs` their number. `folder` is the working folder, empty for the run
    directory. `program` is a name or path, ``None`` if unknown. `written` is the ``PATH`` of configuration or
    environment, `path` the ``PATH`` of the jobs. `in_line` says that a shell starts the program.
    """

    job: Job
    jobs: int
    folder: str
    program: str | None
    written: str | None
    path: str | None
    in_line: bool = False

    @property
    def is_set_by_job(self) -> bool:
        """Whether the program can only be determined where the job runs: a container has programs of its own."""
        settings = self.job.settings
        set_later = bool(settings.setup) or "<ENV:LONGSHORE_JOB_" in (self.written or "")
        if self.program is None or settings.launcher:
            return True
        return "<ENV:" in self.program or (set_later and "/" not in self.program)


class _Use:
    """The first of the jobs that start one program, and their number."""

    __slots__ = ("first", "jobs")

    def __init__(self, first: Job) -> None:
        self.first = first
        self.jobs = 0


def job_programs(jobs: Iterable[Job], configuration: Configuration) -> list[JobProgram]:
    """Return the programs that jobs start, each once per label and folder."""
    uses: dict[tuple[str, str | None, str, str | None, bool], _Use] = {}
    inherited = configuration.env.get("PATH")
    for job in jobs:
        settings = job.settings
        written = job.environment.get("PATH", settings.environment.get("PATH", inherited))
        program = command_program(job.command)
        in_line = program is None
        program = shell_program(job.command) if in_line else program
        key = (job.label, program, settings.working_directory or "", written, in_line)
        if (use := uses.get(key)) is None:
            use = uses[key] = _Use(job)
        use.jobs += 1
    return [
        JobProgram(
            job=use.first,
            jobs=use.jobs,
            program=key[1],
            folder=key[2],
            written=key[3],
            path=substitute_inherited({"PATH": key[3]}, configuration.env)["PATH"] if key[3] else key[3],
            in_line=key[4],
        )
        for key, use in uses.items()
    ]


def existing_programs(programs: Iterable[JobProgram]) -> list[Path]:
    """Return the paths of those that exist outside of the run directory, each once."""
    found: dict[Path, None] = {}
    for use in programs:
        name = use.program
        if (
            name is None
            or use.in_line
            or use.is_set_by_job
            or ("/" in name and not f"{use.folder}{name}".startswith("/"))
        ):
            continue
        target = Path(use.folder, name) if "/" in name else Path(shutil.which(name, path=use.path) or "")
        if can_see_file(target):
            found[target] = None
    return list(found)


def missing_programs(
    programs: Iterable[JobProgram], files: Mapping[str, File], configuration: Configuration, identity: FileIdentity
) -> Iterator[Problem]:
    """Yield problems for missing programs, interpreters and working folders; job files may be programs."""
    job_files = {file.path for file in files.values()}
    whole_paths = cache(lambda: {identity.of(path) for path in job_files})
    missing = cache(_find_fault)
    for use in programs:
        job, program = use.job, use.program
        if use.folder and "<ENV:" not in use.folder and not can_see_folder(Path(use.folder)):
            yield Problem(
                message=f"job '{job.name}' is to run in '{use.folder}', which is no directory",
                job=job.name,
                jobs=use.jobs,
                key="workingDirectory",
                hint="Make it, or correct 'workingDirectory'.",
                code="files",
            )
        elif program is not None and not use.is_set_by_job and program not in job_files:
            fault, hint = missing(program, use.folder, use.path)
            if fault == _NOT_FOUND and use.written != configuration.env.get("PATH"):
                fault, hint = (
                    f"{fault} that 'environment' gives it",
                    "Correct 'runQuantumCommand' or 'environment.PATH'.",
                )
            if use.in_line:
                hint = _LINE_HINT
            if fault and "/" in program and identity.of(posixpath.join(use.folder, program)) in whole_paths():
                continue
            if fault:
                yield Problem(
                    message=f"job '{job.name}' runs '{program}', which {fault}",
                    job=job.name,
                    jobs=use.jobs,
                    key=COMMAND_KEY,
                    hint=hint,
                    code="files",
                    # The line may go on without it, or say itself what it is.
                    fatal=not use.in_line,
                )


def _find_fault(program: str, folder: str, path: str | None) -> tuple[str, str]:
    """Return why a program cannot be run, and the remedy; two empty texts if it can."""
    if "/" not in program:
        found = shutil.which(program, path=path)
        return _find_interpreter_fault(Path(found)) if found else (_NOT_FOUND, _COMMAND_HINT)
    target = Path(folder) / program
    if not can_see(target):
        return "is not there", _COMMAND_HINT
    if can_see_folder(target):
        return "is a directory", _COMMAND_HINT
    if not os.access(target, os.X_OK):
        return "is not executable", f"Make it so with: chmod +x '{target}'"
    return _find_interpreter_fault(target)


def _find_interpreter_fault(program: Path) -> tuple[str, str]:
    """Return the problem of a script whose interpreter is missing; the kernel would name the script."""
    try:
        with program.open("rb") as file:
            first = file.read(_LONGEST_FIRST_LINE).split(b"\n")[0]
    except OSError:
        return "", ""  # an unreadable program may still be executable
    words = first[2:].split() if first.startswith(b"#!") else []
    if not words or os.access(words[0], os.X_OK):
        return "", ""
    interpreter = os.fsdecode(words[0])
    return f"is a script for '{interpreter}', which cannot be run", f"Correct the first line of '{program}'."


# Limits of kernel and file systems: sizes of arguments and environments, lengths of names and paths. Beyond them a job
# cannot start, or cannot make its file, on any service and however often it is tried.


MAX_ARGUMENT_B: Final = 131_071
"""Bytes of one argument, or of one variable with its name: 32 pages less the NUL at its end (MAX_ARG_STRLEN)."""
MAX_NAME_B: Final = 255
"""Bytes of a name in a folder (NAME_MAX)."""
MAX_PATH_B: Final = 4095
"""Bytes of a path: PATH_MAX less the NUL at its end."""
_LARGEST_TOTAL_B: Final = 6 * 1024 * 1024
"""The most that Linux takes of arguments and environment together, however large the stack may become."""
_POINTER_B: Final = 8
_SURELY_SHORT: Final = MAX_ARGUMENT_B // 4
"""Characters of a text that is short enough whatever it holds: UTF-8 has four bytes for a character."""
_PER_CHARACTER: Final = 4 + 1 + _POINTER_B
"""The most that a character of a command can take: as a word of its own, with its end and its pointer."""
_OWN_VARIABLES_B: Final = 8 * 1024
"""Room for the variables that Longshore and the workload manager set for a job."""
_FILE_WAY: Final = "A program can also read names from a file that an earlier task writes, or list the folder itself."


def total_limit() -> int:
    """Bytes of arguments and environment together that this host takes: a quarter of its stack."""
    return max(MAX_ARGUMENT_B, min(_LARGEST_TOTAL_B, os.sysconf("SC_ARG_MAX")))


def exceeded_argument_limits(
    jobs: Iterable[Job], files: Mapping[str, File], inherited: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield problems for jobs that no kernel would start: with a too long argument or variable, or too many."""
    inherited_b = sum(_variable_size(name, value) for name, value in inherited.items()) + _OWN_VARIABLES_B
    limit = total_limit()
    paths: dict[str, str] | None = None
    shared: dict[int, tuple[int, int, Problem | None]] = {}
    for job in jobs:
        settings = job.settings
        if (known := shared.get(id(settings))) is None:
            size, problem = _environment(settings.environment, inherited)
            known = shared[id(settings)] = (size, _added_length(settings), problem)
        environment_b, added, problem = known
        if job.environment:
            own, own_problem = _environment(job.environment, inherited)
            environment_b, problem = environment_b + own, problem or own_problem
        if problem is not None:
            yield _of_job(problem, job)
            continue
        characters = added + (len(job.command) if isinstance(job.command, str) else sum(map(len, job.command)))
        names_files = bool(job.inputs or job.outputs) and "<FILE:" in str(job.command)
        if (
            characters <= _SURELY_SHORT
            and not names_files
            and environment_b + inherited_b + characters * _PER_CHARACTER < limit
        ):
            continue
        if names_files and paths is None:
            paths = {file.name: file.path for file in files.values()}
        command = full_command(substitute_files(job.command, paths or {}), settings)
        problem = _arguments(job, command, environment_b + inherited_b, limit)
        if problem is not None:
            yield problem


def _arguments(job: Job, command: Command, environment_b: int, limit: int) -> Problem | None:
    words = command_argv(command)
    sizes = [_size(word) for word in words]
    longest = max(sizes, default=0)
    if longest > MAX_ARGUMENT_B:
        is_line = isinstance(command, str) and longest == sizes[-1] and len(words) == 3
        what = (
            "the line of its command"
            if is_line
            else f"the word {quote_value(hide_secrets(words[sizes.index(longest)]))}"
        )
        way = _FILE_WAY
        if is_line and job.tasks > 1:
            what, way = f"the line of its {job.tasks:,} tasks", "Put fewer tasks into a cluster."
        elif is_line and isinstance(job.command, str):
            way = f"Give the command as a list of words, in which each file is an argument of its own. {_FILE_WAY}"
        elif is_line:
            way = f"A launcher, 'setup' and lines before or after a command make it one line. {_FILE_WAY}"
        return _problem(
            job,
            f"{what} has {longest:,} bytes, and a kernel takes {MAX_ARGUMENT_B:,} in one argument",
            way,
        )
    total = sum(sizes) + (1 + _POINTER_B) * len(words) + environment_b
    if total > limit:
        return _problem(
            job,
            f"the {len(words):,} words of its command and its environment have {total:,} bytes, and a kernel takes "
            f"{limit:,} together",
            _FILE_WAY,
        )
    return None


def _environment(environment: Mapping[str, str], inherited: Mapping[str, str]) -> tuple[int, Problem | None]:
    """Size of variables, and the problem of the first that is too long."""
    total = 0
    for name, value in substitute_inherited(environment, inherited).items():
        size = _variable_size(name, value)
        total += size
        if size - _POINTER_B - 1 > MAX_ARGUMENT_B:
            return total, Problem(
                message=f"the variable '{name}' has {size - _POINTER_B - 1:,} bytes with its name, and a kernel takes "
                f"{MAX_ARGUMENT_B:,}",
                key="environment",
                hint="Write the value into a file, and give the job the path of the file.",
                code="preparation",
            )
    return total, None


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _variable_size(name: str, value: str) -> int:
    return _size(name) + _size(value) + len("=") + len("\0") + _POINTER_B


def _added_length(settings: JobSettings) -> int:
    """Characters that settings add to a command."""
    lines = (str(settings.attributes.get(key, "")) for key in ("preCmdline", "postCmdline"))
    return len(settings.launcher) + sum(map(len, settings.setup)) + sum(map(len, lines))


def _problem(job: Job, message: str, hint: str) -> Problem:
    problem = Problem(message=message, hint=hint, key=COMMAND_KEY, code="preparation")
    return _of_job(problem, job)


def _of_job(problem: Problem, job: Job) -> Problem:
    return Problem(
        message=f"job {quote_value(job.name)} cannot start: {problem.message}",
        job=job.name,
        label=job.label,
        key=problem.key,
        hint=problem.hint,
        code=problem.code,
        jobs=1,
    )


def overlong_paths(jobs: Iterable[Job], files: Mapping[str, File], run_directory: Path) -> Iterator[Problem]:
    """Yield problems for a run directory, and for jobs with a file, that no file system has room for."""
    if fault := path_fault(str(run_directory)):
        yield Problem(
            message=f"the run directory cannot be made: {fault}",
            hint="Choose another place with 'submitPath'.",
            code="files",
        )
    overlong = {name: fault for name, file in files.items() if (fault := path_fault(file.path))}
    for job in jobs if overlong else ():
        for verb, names in (("reads", job.inputs), ("writes", job.outputs)):
            for name in names:
                if name in overlong:
                    yield Problem(
                        message=f"job {quote_value(job.name)} {verb} a file that cannot be: {overlong[name]}",
                        job=job.name,
                        label=job.label,
                        jobs=1,
                        hint="Give it a shorter name: use a short dimension, such as a number, in its path.",
                        code="files",
                    )


def path_fault(path: str) -> str:
    """What is too long in a path, with length and limit; empty if nothing is."""
    if len(path) * 4 <= MAX_NAME_B or (len(path) <= MAX_NAME_B and path.isascii()) or is_remote(path):
        return ""
    size = _size(path)
    if size > MAX_PATH_B:
        return f"the path {quote_value(path)} has {size:,} bytes, and a system takes {MAX_PATH_B:,}"
    for name in path.split("/"):
        if len(name) * 4 > MAX_NAME_B and (size := _size(name)) > MAX_NAME_B:
            return f"the name {quote_value(name)} has {size:,} bytes, and a file system takes {MAX_NAME_B:,}"
    return ""


_LISTING_THRESHOLD: Final = 32
"""Files per folder above which one listing is faster than a query each, and loads the file server less."""

_SAFE_NAME_LENGTH: Final = 50
"""Length of names that is safe for file names with any characters."""


def check_jobs(
    run: ResolvedRun,
    workflow: Workflow,
    progress: Progress,
    *,
    commands: Mapping[str, Node] = MappingProxyType({}),
    directories: Iterable[str] = (),
    has_one_path_per_file: bool = False,
) -> Sequence[JobProgram]:
    """Refuse jobs that can never run, print notes about doubtful ones, and return the programs that jobs start.

    `commands` are the payload's commands per label, `directories` the folders that the run makes for outputs.
    `has_one_path_per_file` spares to look for two. Raises `RequestError` or `FilesError` if all problems are requests
    or files, else the error that `error_type` has for them.
    """
    jobs = list(workflow)
    # A pipeline's reader found its missing inputs, and named their place.
    inputs = () if run.static and run.static.seen else _missing_inputs(jobs, workflow.files)
    programs = job_programs(jobs, run.configuration)
    missing = chain(missing_programs(programs, workflow.files, run.configuration, run.file_identity()), inputs)
    same = {} if has_one_path_per_file else same_files(workflow.files, run.file_identity())
    problems: Iterator[Problem] = chain(
        _find_problems(run, workflow, jobs),
        _output_conflicts(jobs, workflow.files, same),
        exceeded_argument_limits(jobs, workflow.files, run.configuration.env),
        overlong_paths(jobs, workflow.files, run.paths.root),
    )
    missing = chain(missing, unwritable_outputs(jobs, workflow.files))
    is_here = run.service.traits.runs_on_submit_host and (run.static is None or run.static.is_service_known)
    found = missing if is_here else map(_as_seen_here, missing)
    # Of jobs here, their outputs are told.
    problems = chain(problems, unwritable_folders(run, () if is_here else directories))
    if run.static is not None:
        # Beside errors of other kinds, all of these are told.
        run.static.seen.extend(summarize(found, run, workflow, commands))
    else:
        problems = chain(problems, found)
    raise_problems(summarize(problems, run, workflow, commands), progress)
    return programs


_OF_KERNEL: Final = ("/proc", "/sys")
"""Folders in which nobody makes files, whatever their permissions say."""


def unwritable_folders(run: ResolvedRun, directories: Iterable[str]) -> Iterator[Problem]:
    """Yield problems for folders that a submission cannot make: of outputs, and in a static check the run directory."""
    root = run.paths.root
    if run.static is not None and (why := _find_writing_fault(root)):
        yield Problem(
            message=f"the run directory '{root}' cannot be written: {why}",
            hint="Choose another place with 'submitPath'.",
            code="files",
        )
    for folder in (root / each for each in directories):
        if not folder.is_relative_to(root) and (why := _find_writing_fault(folder)):
            yield Problem(message=f"the folder '{folder}' for outputs cannot be made: {why}", code="files")


def unwritable_outputs(jobs: Iterable[Job], files: Mapping[str, File]) -> Iterator[Problem]:
    """Yield problems for outputs in folders where this host can make no file."""
    # There may be a million outputs, in few folders.
    fault = cache(lambda folder: _find_writing_fault(Path(folder or "/")))
    for job in jobs:
        for name in job.outputs:
            path = files[name].path
            # A file that is there may be a result of an earlier run, which is kept as it is.
            if path.startswith("/") and (why := fault(path.rpartition("/")[0])) and not can_see(Path(path)):
                yield Problem(
                    message=f"job '{job.name}' writes '{path}', and no file can be made there: {why}",
                    job=job.name,
                    label=job.label,
                    jobs=1,
                    hint="Give it another path.",
                    code="files",
                )


def _find_writing_fault(folder: Path) -> str:
    """Return why no file can be made in a folder, or the folder in the nearest one that is there; empty if one may."""
    if str(folder).startswith(tuple(f"{each}/" for each in _OF_KERNEL)) or str(folder) in _OF_KERNEL:
        return "the kernel makes what is there"
    nearest = folder
    while not can_see(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not can_see_folder(nearest):
        return f"'{nearest}' is no directory"
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"'{nearest}' is not writable"


def check_commands(
    clustered: ClusteredGraph, profiles: Mapping[Composition, ClusterProfile], progress: Progress
) -> None:
    """Refuse jobs without a command, before any job is made; raises `PreparationError`."""
    if all(part.command is not None for profile in profiles.values() for part in profile.parts.values()):
        return
    count: Counter[str] = Counter()
    first: dict[str, str] = {}
    for cluster, kind in zip(clustered.dag.nodes, clustered.compositions, strict=True):
        parts = profiles[kind].parts
        for task in cluster.tasks:
            if task.command is None and parts[task.label].command is None:
                count[task.label] += 1
                first.setdefault(task.label, task.name)
    raise_problems((_missing_command(label, name, count[label]) for label, name in first.items()), progress)


def note_unknown_quotations(
    run: ResolvedRun, profiles: Mapping[Composition, ClusterProfile], progress: Progress
) -> None:
    """Print a note per command with a value in unknown quotation marks, or add it to a static check."""
    lines = {
        label: part.command
        for profile in profiles.values()
        for label, part in profile.parts.items()
        if isinstance(part.command, ShellLine)
    }
    for label, line in lines.items():
        for name in dict.fromkeys(line.names_in(Quotation.UNKNOWN)):
            message = f"in the command of '{label}', the quotation marks around '{{{name}}}' are not known"
            way_out = f"Begin the command with 'value={{{name}}}', and use \"$value\"."
            hint = f"A value with a blank may be wrong there. {way_out}"
            if run.static is None:
                progress.note(f"{message}. {hint}")
            else:
                run.static.notes.append(Problem(message=message, hint=hint, origin=line.origin, fatal=False))


def note_unmatched_labels(run: ResolvedRun, clustered: ClusteredGraph, progress: Progress) -> None:
    """Print a note for keys and sections without tasks or effect, if the payload was needed to know."""
    configuration = run.configuration
    found = find_keys_unused_by_payload(configuration)
    if find_payload_names(configuration, files=False).labels is None:
        root = configuration.config.root
        labels = frozenset(task.label for task in clustered.source.dag.nodes)
        unknown = chain(find_unmatched_sections(root, None), find_ineffective_sections(root, payload_read=False))
        known = chain(find_unmatched_sections(root, labels), find_ineffective_sections(root, payload_read=True))
        before = {finding.message for finding in unknown}
        found += [finding for finding in known if finding.message not in before]
    if run.static is not None:
        run.static.findings.extend(sort_findings(found, configuration))
    else:
        note_warnings(sort_findings(found, configuration), progress)


def find_missing_inputs(run: RunPaths) -> Iterator[Problem]:
    """Yield missing input files of a prepared run that no job makes; the first few of many.

    Raises `RunUnreadableError` if the workflow is damaged.
    """
    jobs = JobTable(run)
    files = {file.name: file for file in jobs.files()}
    produced = {name for names in jobs.outputs for name in names} if files else set()
    external = external_files(files, produced)
    missing = sorted(external[name] for name in _missing_names(external))
    for number, path in enumerate(missing[:MAX_LISTED], 1):
        more = (
            f" (and {len(missing) - number:,} more like it)" if number == MAX_LISTED and len(missing) > number else ""
        )
        yield Problem(message=f"its input '{path}' is not there any more{more}")


def _find_problems(run: ResolvedRun, workflow: Workflow, jobs: Sequence[Job]) -> Iterator[Problem]:
    for problem in judge(run, workflow):
        # Who submits cannot mend a profile.
        is_of_profile = problem.origin is not None and problem.origin.layer == LayerRank.SITE.label
        if problem.code != UNUSED or not is_of_profile:
            yield problem
    yield from _log_conflicts(jobs, workflow)


def _as_seen_here(problem: Problem) -> Problem:
    """Return a missing file as a note: the hosts of the jobs may have it."""
    return msgspec.structs.replace(problem, message=f"{problem.message}, as seen from this host", fatal=False)


def _missing_command(label: str, task: str, tasks: int) -> Problem:
    others = f" (nor do {tasks - 1:,} more of the label '{label}')" if tasks > 1 else ""
    return Problem(
        message=f"task '{task}' has no command{others}",
        hint=f"Give one to all its kind: pipetask: {{{label}: {{runQuantumCommand: ...}}}}.",
        code="preparation",
        label=label,
        jobs=tasks,
    )


def _log_conflicts(jobs: Sequence[Job], workflow: Workflow) -> Iterator[Problem]:
    """Yield problems for jobs with different names but equal log paths."""
    for job in jobs:
        # Nearly all names are valid file names.
        if "/" not in job.name and "\0" not in job.name and len(job.name) <= _SAFE_NAME_LENGTH:
            continue
        name = file_name(job.name)
        other = workflow.get(name)
        if name != job.name and other is not None and other.label == job.label:
            yield Problem(
                message=f"the jobs '{name}' and '{job.name}' would write one log",
                job=job.name,
                jobs=1,
                hint="In the name of a file '/' is '_': name them otherwise.",
                code="preparation",
            )


def _output_conflicts(jobs: Sequence[Job], files: Mapping[str, File], same: Mapping[str, str]) -> Iterator[Problem]:
    """Yield problems for files written by two jobs, unless the second one updates its input.

    `same` has the name of the file by those of others of its path.
    """
    writers: dict[str, str] = {}
    for job in jobs:
        for name in job.outputs:
            file = same.get(name, name) if same else name
            first = writers.setdefault(file, job.name)
            if first != job.name and name not in job.inputs:
                yield Problem(
                    message=f"the jobs '{first}' and '{job.name}' both write the file '{files[file].path}'",
                    job=job.name,
                    jobs=1,
                    hint="Give what each writes a path of its own.",
                    code="files",
                )


def _missing_inputs(jobs: Sequence[Job], files: Mapping[str, File]) -> Iterator[Problem]:
    """Yield problems for missing input files that no job makes."""
    produced = {name for job in jobs for name in job.outputs}
    external = external_files(files, produced)
    missing = _missing_names(external)
    for job in jobs if missing else ():
        for name in job.inputs:
            if name in missing:
                yield Problem(
                    message=f"job '{job.name}' reads '{external[name]}', which is not there and which no job makes",
                    job=job.name,
                    jobs=1,
                    hint="Put it there, or correct what names it.",
                    code="files",
                )


def _missing_names(paths: Mapping[str, str]) -> set[str]:
    """Return the names of files that do not exist."""
    folders: dict[str, list[str]] = {}
    for name, path in paths.items():
        folders.setdefault(path.rpartition("/")[0], []).append(name)
    missing = set()
    for folder, names in folders.items():
        listing: set[str] | None = None
        if len(names) > _LISTING_THRESHOLD:
            with suppress(OSError):
                listing = set(os.listdir(folder or "/"))
        for name in names:
            path = paths[name]
            # A listed name may be a broken link; that is rare, and the job will report it.
            is_there = path.rpartition("/")[2] in listing if listing is not None else os.path.exists(path)  # noqa: PTH110
            if not is_there:
                missing.add(name)
    return missing
