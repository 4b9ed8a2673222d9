"""Submit descriptions: jobs grouped by what they share, which is written once, with each job's own values as macros."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.contract.service import RUN_FOLDER, Context
from longshore.engine.job_wrapper import WRAPPER
from longshore.engine.policy.retry import RetryRules, make_retry_rules
from longshore.jobs.commands import (
    GPU_RESOURCES,
    SHELL,
    add_launcher,
    add_setup,
    add_user_lines,
    command_argv,
    exact_shell_line,
    fill_attempt,
    fill_command_attempt,
    job_variables,
    names_attempt,
    shell_assignment,
    shell_line,
    substitute_files,
    thread_variables,
)
from longshore.jobs.scripts import TASKS_DONE_VARIABLE, task_record_path
from longshore.model.tasks import Command
from longshore.model.workflow import MIB, Job, JobSettings, Request, shared_parts_key
from longshore.services.htcondor.render import log_names, quoting, transfer
from longshore.services.htcondor.render.retries import (
    MACROS,
    REMOVALS,
    RetryInputs,
    max_mib,
    memory_request,
    removal_retries,
    retry_commands,
    walltime_limit,
)
from longshore.services.htcondor.render.settings import CondorJobSettings, getenv
from longshore.services.htcondor.render.transfer import REMOTE_RUN_DIR, OutputWords, TransferLists

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# Groups jobs by submit description, and separates the shared command text from each job's own.


_ENV: Final = "/usr/bin/env"
"""Finds a program in ``PATH``, as a shell does; HTCondor needs the path of the executable."""
_DELAYED: Final = "<ENV:"
_BETWEEN: Final = "\x1f"
_BREAK: Final = "\n"
_OWN: Final = "0LongshoreOwn0"
"""Placeholder for a job's own text of a command while the shared rest is quoted."""
_OWN_SIGNS: Final = re.compile(r"[A-Za-z0-9_@%+:,./\n-]*", re.ASCII)
"""Own text that needs no quoting: characters without a meaning to any parser."""


class SharedText(msgspec.Struct, frozen=True):
    """Texts of many jobs in HTCondor's syntax: a shared prefix and suffix, and each job's own part.

    ``own_parts`` is empty if all texts are equal.
    """

    before: str
    after: str
    own_parts: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> SharedText:
        """Split texts into their shared and own parts."""
        if texts.count(texts[0]) == len(texts):
            return cls(texts[0], "", ())
        before, after = quoting.shared_affixes(texts)
        return cls(before, after, [text[len(before) : len(text) - len(after)] for text in texts])


class DescriptionGroup(msgspec.Struct, kw_only=True):
    """A group of jobs with one submit description."""

    settings: JobSettings
    """Shared settings; amounts of requests may differ."""
    frame: CommandFrame
    is_plain: bool
    """Whether the jobs' names need no quoting."""
    unset: frozenset[str] = frozenset()
    """Names of the variables that each job sets itself."""
    exported: frozenset[str] = frozenset()
    """Names of the variables that the command itself exports."""
    indices: list[int] = msgspec.field(default_factory=list)
    """Number of each job, as for the lists below."""
    names: list[str] = msgspec.field(default_factory=list)
    commands: list[Command] = msgspec.field(default_factory=list)
    """Command of each job, including exports in front of it."""
    variables: list[str] = msgspec.field(default_factory=list)
    """Own environment variables of each job, in HTCondor's syntax."""
    requests: list[Request] = msgspec.field(default_factory=list)
    quanta: list[str] = msgspec.field(default_factory=list)
    """Number of tasks per label of each job, as BPS writes it."""
    outputs: list[str] = msgspec.field(default_factory=list)
    """Words of the wrapper for each job's outputs, in HTCondor's syntax; empty where none are checked."""
    transfers: list[TransferLists] = msgspec.field(default_factory=list)
    """Files that HTCondor transfers for each job; empty where jobs see the run directory."""


class CommandFrame(msgspec.Struct, frozen=True):
    """Shell text in front of and around the commands of a job profile."""

    group: int
    """Number shared by profiles that differ only in amounts of their requests."""
    lines: tuple[str, ...]
    """Lines of shell before the command."""
    launcher: str
    """Program that starts the command."""
    before: str
    """The user's shell lines before the command (``preCmdline``)."""
    after: str
    """The user's shell lines after the command (``postCmdline``)."""
    exported: frozenset[str]
    """Names of the variables that `lines` exports."""
    tasks: bool
    """Whether jobs of several tasks record which are done."""


class JobGrouper:
    """Groups the jobs of a workflow by submit description."""

    def __init__(self, workflow: Workflow, ctx: Context) -> None:
        self._workflow = workflow
        self.attributes = workflow.attributes
        self._root = str(ctx.paths.root)
        self._file_number = ctx.file_number
        self._is_transfer = transfer.is_enabled(ctx)
        self._run_dir = transfer.REMOTE_RUN_DIR if self._is_transfer else self._root
        self._paths = (
            transfer.remote_paths(workflow.files)
            if self._is_transfer
            else {name: file.path for name, file in workflow.files.items()}
        )
        self._frames: dict[int, CommandFrame] = {}
        """Frame per identity of settings, and below per identities of their parts: requests may be as many as jobs."""
        self._frames_by_parts: dict[tuple[object, ...], CommandFrame] = {}
        self._groups: dict[bytes, int] = {}
        self._settings: list[JobSettings] = []
        """Keeps settings alive, because their ids are keys."""

    def groups(self) -> list[DescriptionGroup]:
        """The groups, in the order of their first jobs; the final job is the last group, alone."""
        groups: dict[tuple[object, ...], DescriptionGroup] = {}
        last = len(self._workflow) - 1 if self._workflow.final else -1
        frames, is_plain = self._frames, log_names.is_plain
        transfers, transfer_kinds = transfer.NO_TRANSFER, (False, False)
        checker = OutputWords(self._workflow, self._root)
        for index, job in enumerate(self._workflow):
            settings, command = job.settings, job.command
            frame = frames.get(id(settings)) or self._frame(settings)
            variables, unset, exported = "", _NONE, frame.exported
            if job.environment or (job.tasks > 1 and frame.tasks):
                variables, unset, command, exported = self._own_environment(index, job, frame)
            if self._is_transfer:
                transfers = transfer.transfer_lists(job, self._workflow.files, self._root)
                transfer_kinds = (bool(transfers.inputs), bool(transfers.outputs))
            outputs = "" if self._is_transfer else checker.words(job)
            key = (
                bool(outputs),
                frame.group,
                is_plain(job.name),
                command.__class__ is str,
                unset,
                exported,
                index == last,
                transfer_kinds,
            )
            group = groups.get(key)
            if group is None:
                group = DescriptionGroup(
                    settings=settings, frame=frame, is_plain=is_plain(job.name), unset=unset, exported=exported
                )
                groups[key] = group
            group.indices.append(index)
            group.names.append(job.name)
            group.commands.append(command)
            group.variables.append(variables)
            group.requests.append(settings.request)
            group.quanta.append(_quanta(job))
            if outputs:
                group.outputs.append(outputs)
            if self._is_transfer:
                group.transfers.append(transfers)
        return list(groups.values())

    def _frame(self, settings: JobSettings) -> CommandFrame:
        """The shared text in front of all commands of a job profile."""
        self._settings.append(settings)
        request = _without_amounts(settings.request)
        parts = (*shared_parts_key(settings), request.key())
        if parts in self._frames_by_parts:
            frame = self._frames[id(settings)] = self._frames_by_parts[parts]
            return frame
        inexpressible = {name: value for name, value in settings.environment.items() if not _is_expressible(value)}
        comparable = msgspec.structs.replace(settings, request=request)
        key = msgspec.json.encode(comparable, order="sorted")
        frame = CommandFrame(
            group=self._groups.setdefault(key, len(self._groups)),
            lines=(*self._exports(inexpressible), *settings.setup),
            launcher=settings.launcher,
            before=str(settings.attributes.get("preCmdline") or ""),
            after=str(settings.attributes.get("postCmdline") or ""),
            exported=frozenset(inexpressible),
            tasks=settings.rules.resume_tasks,
        )
        self._frames[id(settings)] = self._frames_by_parts[parts] = frame
        return frame

    def _exports(self, variables: Mapping[str, str]) -> list[str]:
        known = {"LONGSHORE_JOB_RUN_DIR": self._run_dir}
        return [f"export {shell_assignment(name, value, known)}" for name, value in variables.items()]

    def _own_environment(
        self, index: int, job: Job, frame: CommandFrame
    ) -> tuple[str, frozenset[str], Command, frozenset[str]]:
        """Variables of a job in HTCondor's syntax, their names, its command, and the names that the command exports."""
        own = dict(job.environment)
        if job.tasks > 1 and frame.tasks:
            own[TASKS_DONE_VARIABLE] = f"{self._run_dir}/{task_record_path(self._file_number(index))}"
        expressible = {name: value for name, value in own.items() if _is_expressible(value)}
        inexpressible = {name: value for name, value in own.items() if name not in expressible}
        command = add_setup(job.command, self._exports(inexpressible)) if inexpressible else job.command
        return (
            fill_attempt(quoting.quote_environment(expressible), quoting.ATTEMPT),
            frozenset(expressible),
            command,
            frame.exported | frozenset(inexpressible),
        )

    # -------------------------------------------------------------------------------------------------- the commands

    def program_and_arguments(self, group: DescriptionGroup) -> tuple[str, SharedText]:
        """The executable of a group, and the arguments of its jobs."""
        # Commands mostly differ in a few letters: the shared text is quoted once.
        text = self._shared_command(group) or SharedText.of(
            [self._program_text(command, group.frame) for command in group.commands]
        )
        program, blank, rest = text.before.partition(" ")
        if program.startswith("/") and quoting.PLAIN.fullmatch(program) and (blank or not text.own_parts):
            return program, SharedText(rest, text.after, text.own_parts)
        return _ENV, text

    def _shared_command(self, group: DescriptionGroup) -> SharedText | None:
        """Shared and own text of commands whose differences need no quoting; ``None`` if that is uncertain."""
        commands = [command if isinstance(command, str) else _BETWEEN.join(command) for command in group.commands]
        if not isinstance(group.commands[0], str):
            counted = zip(commands, group.commands, strict=True)
            if any(joined.count(_BETWEEN) >= len(words) for joined, words in counted):
                # A word contains the separator itself.
                return None
        before, after = quoting.shared_affixes(commands)
        before, after = _exclude_split_marks(before, after)
        begin, end = len(before), len(after)
        own = [command[begin : len(command) - end] for command in commands]
        if not any(own):
            return SharedText(self._program_text(group.commands[0], group.frame), "", ())
        is_line = isinstance(group.commands[0], str)
        if not _can_insert_later(before, after, own, is_line=is_line):
            return None
        command_text = f"{before}{_OWN}{after}"
        line = self._program_text(command_text if is_line else tuple(command_text.split(_BETWEEN)), group.frame)
        head, _, tail = line.partition(_OWN)
        return None if _OWN in tail else SharedText(head, tail, own)

    def _program_text(self, command: Command, frame: CommandFrame) -> str:
        """Program and arguments of a job's complete command, in HTCondor's syntax."""
        launched = add_launcher(self._fill_run_dir(substitute_files(command, self._paths)), frame.launcher)
        command = add_setup(add_user_lines(launched, frame.before, frame.after), frame.lines)
        return program_line(fill_command_attempt(command, quoting.ATTEMPT))

    def _fill_run_dir(self, command: Command) -> Command:
        """The command with the run directory substituted for its variable."""
        mark = RUN_FOLDER
        if isinstance(command, str) or not any(mark in word for word in command):
            return command
        return tuple(word.replace(mark, self._run_dir) for word in command)


_NONE: Final[frozenset[str]] = frozenset()


def _exclude_split_marks(before: str, after: str) -> tuple[str, str]:
    """Shorten a prefix and a suffix so that they do not split a ``<FILE:x>``."""
    if before.rfind("<") > before.rfind(">"):
        before = before[: before.rfind("<")]
    close, opened = after.find(">"), after.find("<")
    if close >= 0 and (opened < 0 or close < opened):
        after = after[close + 1 :]
    return before, after


def _can_insert_later(before: str, after: str, own: Sequence[str], *, is_line: bool) -> bool:
    """Whether own text can be inserted after the rest of the command is quoted."""
    together = _BREAK.join(own)
    if not _OWN_SIGNS.fullmatch(together) or together.count(_BREAK) >= len(own) or _OWN in before + after:
        return False
    if is_line:
        # The first word must be shared: it may be a builtin of the shell, or an assignment.
        return " " in before.strip(" ")
    # An empty word needs quotes.
    return _BETWEEN in before and (all(own) or before[-1] != _BETWEEN or after[:1] not in {"", _BETWEEN})


def _quanta(job: Job) -> str:
    """Number of tasks per label of a job, as BPS writes it."""
    if job.quanta == ():
        return f"{job.label}:{job.tasks}"
    return ";".join(f"{label}:{count}" for label, count in job.quanta_counts.items())


def _without_amounts(request: Request) -> Request:
    """The request without the amounts that may differ within a submit description; whether each is set stays."""
    return msgspec.structs.replace(
        request,
        cpus=1,
        memory_b=request.memory_b and 1,
        disk_b=request.disk_b and 1,
        walltime_s=request.walltime_s and 1.0,
    )


def _is_expressible(value: str) -> bool:
    return _DELAYED not in value and quoting.is_quotable(value)


def program_line(command: Command) -> str:
    """Program and arguments of any command, in HTCondor's syntax."""
    if not isinstance(command, str) and any(_DELAYED in word for word in command):
        command = f"exec {shell_line(command)}"
    words = command_argv(command)
    if not all(map(quoting.is_quotable, words)) or "=" in words[0]:
        line = command if isinstance(command, str) else f"exec {exact_shell_line(command)}"
        words = quoting.pack_line(line)
    return quoting.quote_arguments(words)


# Writes submit descriptions: the shared settings of jobs as commands, each job's own values as macros.


NAME: Final = "n"
FOLDER: Final = "o"
ARGUMENTS: Final = "a"
VARIABLES: Final = "e"
"""Macros of a node: name of the job, subfolder of its logs, own text of its arguments, own environment variables."""
QUANTA: Final = "q"
"""Macro of a node whose numbers of tasks per label differ within its group."""
INPUTS: Final = "ti"
OUTPUTS: Final = "to"
REMAPS: Final = "tr"
"""Macros of a node with file transfer: inputs, outputs, and the outputs' destinations."""
CHECKED: Final = "w"
"""Macro of a node whose outputs the wrapper checks: its words for them."""
IN_PATHS: Final = "f"
IN_VARIABLES: Final = "v"
"""Macros of a node whose name has special characters: the name in paths, and in the environment."""
ATTEMPT: Final = "try"
"""Macro of a description whose jobs use the number of the attempt."""
STARTED: Final = "started"
"""Macro of a node with the number of its job's starts in earlier submissions of the run."""
_ATTEMPT_NUMBER: Final = f"$$([(NumJobStarts?:0)+$({STARTED}:0)+{REMOVALS}])"
"""Expression that the schedd expands at each match: the starts so far.

A job keeps its cluster when it is started again, except after a removal by a person, and in a restart of the run. How
often a removed job had started is known to nobody who submits it again: a removal counts as one start.
"""
CPUS: Final = "cpus"
MEMORY: Final = "mem"
DISK: Final = "disk"
TIME: Final = "wall"
"""Macros by which a node overrides its label's request: processors, MiB, MiB, seconds."""


class SubmitDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a submit description."""

    settings: JobSettings
    """Shared settings of the jobs; amounts of their requests may differ."""
    name: str
    executable: str
    """Path of the program."""
    arguments: SharedText
    variables: SharedText
    """Own environment variables of the jobs."""
    is_plain: bool = True
    """Whether the jobs' names need no quoting."""
    index: int | None = None
    """Number of the only job; ``None`` if it follows from the name of the node."""
    unset: frozenset[str] = frozenset()
    """Shared variables that these jobs set themselves."""
    exported: frozenset[str] = frozenset()
    """Variables that the command itself exports."""
    quanta: SharedText
    """Number of tasks per label."""
    checked: SharedText | None = None
    """Words of the wrapper for the outputs; ``None`` where it does not run."""
    transfers: Mapping[str, SharedText] = msgspec.field(default_factory=dict)
    """Lists of transferred files per macro; empty where jobs see the run directory."""

    @property
    def names_attempt(self) -> bool:
        """Whether a command or a variable has the number of the attempt."""
        shared = (self.arguments, self.variables)
        texts = (text for each in shared for text in (each.before, each.after, *each.own_parts))
        return any(quoting.ATTEMPT in text for text in texts) or any(
            map(names_attempt, self.settings.environment.values())
        )


def description_lines(description: SubmitDescription, ctx: Context, attributes: Mapping[str, str]) -> Iterator[str]:
    """The lines of a submit description, without the enclosing ones; `attributes` are those of the run."""
    settings = description.settings
    own_settings = CondorJobSettings.of(settings)
    executable = SHELL if description.checked else description.executable
    lines = [("universe", "vanilla"), ("executable", executable), ("transfer_executable", "false")]
    if text := _arguments_text(description, ctx):
        lines.append(("arguments", f'"{text}"'))
    lines.append(("environment", f'"{_environment_text(description, ctx)}"'))
    if names := getenv(ctx):
        lines.append(("getenv", names))
    lines += _file_commands(description, ctx, own_settings)
    lines += _request_commands(settings, ctx, own_settings)
    lines += _accounting_commands(settings)
    lines += [(f"My.{name}", value) for name, value in _job_attributes(description, ctx, attributes)]
    if description.names_attempt:
        yield f"{ATTEMPT} = {_ATTEMPT_NUMBER}"
    yield from (f"{name} = {insert_attempt(value)}" for name, value in lines)
    yield from own_settings.lines


def insert_attempt(text: str) -> str:
    """Text of a description, or of a node's variables, with the macro of the attempt's number in its places."""
    return text.replace(quoting.ATTEMPT, f"$({ATTEMPT})")


def _arguments_text(description: SubmitDescription, ctx: Context) -> str:
    arguments = _macro_text(description.arguments, ARGUMENTS)
    if description.checked is None:
        return arguments
    wrapper = quoting.escape_description(quoting.quote_word(str(ctx.rendered_paths.root / WRAPPER)))
    words = _macro_text(description.checked, CHECKED)
    # The cluster names the record of a success with an output that is stale or empty.
    return " ".join(filter(None, (wrapper, "-n", "$(Cluster)", "-o", words, "--", description.executable, arguments)))


def _macro_text(text: SharedText, macro: str) -> str:
    own = f"$({macro})" if text.own_parts else ""
    return f"{quoting.escape_description(text.before)}{own}{quoting.escape_description(text.after)}"


def _environment_text(description: SubmitDescription, ctx: Context) -> str:
    settings, amounts = description.settings, request_macros(description.settings.request, description.settings, ctx)
    macros = {
        "LONGSHORE_JOB_NAME": f"$({NAME})" if description.is_plain else f"$({IN_VARIABLES})",
        # The schedd expands the next two at each match, so that they are right for each attempt.
        "LONGSHORE_JOB_ATTEMPT": f"'{log_names.ATTEMPT}'",
        "LONGSHORE_JOB_MEMORY_MB": "'$$([int(RequestMemory)])'",
        "LONGSHORE_JOB_CPUS": f"$({CPUS}:{amounts[CPUS]})",
        "LONGSHORE_JOB_DISK_MB": f"$({DISK}:{amounts.get(DISK)})",
    }
    threads = thread_variables(0) if settings.limit_threads else {}
    macros |= dict.fromkeys(threads.keys() - settings.environment.keys(), macros["LONGSHORE_JOB_CPUS"])
    job_values = job_variables(
        name="",
        label=settings.label,
        attempt=0,
        request=settings.request,
        run_dir=REMOTE_RUN_DIR if description.transfers else str(ctx.paths.root),
    )
    variables = {**threads, **settings.environment, **job_values}
    names = [name for name in variables if name not in description.unset and name not in description.exported]
    entries = [f"{name}={macros[name]}" if name in macros else _variable(name, variables[name]) for name in names]
    return " ".join([*entries, _macro_text(description.variables, VARIABLES)]).strip()


def _variable(name: str, value: str) -> str:
    text = quoting.escape_description(quoting.quote_environment({name: value}))
    return fill_attempt(text, quoting.ATTEMPT)


def _file_commands(
    description: SubmitDescription, ctx: Context, own_settings: CondorJobSettings
) -> Iterator[tuple[str, str]]:
    settings = description.settings
    if description.transfers:
        yield "initialdir", str(ctx.paths.root)
        yield "should_transfer_files", "YES"
        yield "when_to_transfer_output", "ON_EXIT_OR_EVICT"
        inputs, outputs, remaps = (
            _macro_text(description.transfers[macro], macro) for macro in (INPUTS, OUTPUTS, REMAPS)
        )
        if inputs:
            yield "transfer_input_files", inputs
        # Without a list, HTCondor would transfer back all new files.
        yield "transfer_output_files", outputs or '""'
        if remaps:
            yield "transfer_output_remaps", f'"{remaps}"'
    else:
        yield "initialdir", settings.working_directory or str(ctx.paths.root)
        yield "should_transfer_files", "NO"
    name = f"$({NAME})" if description.is_plain else f"$({IN_PATHS})"
    attempt = "" if own_settings.overwrite else f".{log_names.ATTEMPT}"
    log = f"{ctx.paths.root}/{log_names.log_folder(settings.label, f'$({FOLDER})')}/{name}.$(Cluster){attempt}.log"
    # Both into one file: HTCondor opens it once if the names are equal.
    yield "output", log
    yield "error", log


def _request_commands(
    settings: JobSettings, ctx: Context, own_settings: CondorJobSettings
) -> Iterator[tuple[str, str]]:
    request = settings.request
    rules = _retry_rules(settings, ctx)
    amounts = request_macros(request, settings, ctx)
    yield "request_cpus", f"$({CPUS}:{amounts[CPUS]})"
    memory = f"$({MEMORY}:{amounts[MEMORY]})" if MEMORY in amounts else None
    attempts = RetryInputs(rules=rules, memory=memory, max_mib=max_mib(rules), release=own_settings.release)
    if removal_retries(settings):
        yield from ((name, f"({text} + {REMOVALS})" if name == "spent" else text) for name, text in MACROS)
    else:
        yield from MACROS
    if memory is not None:
        yield "request_memory", memory_request(attempts)
    if DISK in amounts:
        yield "request_disk", f"$({DISK}:{amounts[DISK]})M"
    for name, amount in sorted(request.resources.items()):
        yield f"request_{'gpus' if name in GPU_RESOURCES else name}", str(amount)
    if TIME in amounts:
        yield "allowed_execute_duration", walltime_limit(f"$({TIME}:{amounts[TIME]})", rules)
    yield from retry_commands(attempts)


def request_macros(request: Request, settings: JobSettings, ctx: Context) -> dict[str, str]:
    """Request of the first attempt, per macro."""
    rules = _retry_rules(settings, ctx)
    found = {CPUS: str(request.cpus)}
    if request.memory_b is not None:
        most = rules.memory_most_b if rules.memory_factor is not None else None
        memory_b = request.memory_b if most is None else min(request.memory_b, most)
        found[MEMORY] = str(math.ceil(memory_b / MIB))
    if request.disk_b is not None:
        found[DISK] = str(math.ceil(request.disk_b / MIB))
    if request.walltime_s is not None:
        found[TIME] = str(math.ceil(request.walltime_s))
    return found


def _retry_rules(settings: JobSettings, ctx: Context) -> RetryRules:
    rules = make_retry_rules(settings, retries_on_lost=0, capacity=ctx.probe.capacity if ctx.probe else None)
    # The exit code that aborts the run is not retried.
    if (value := settings.attributes.get("abortOnValue")) is not None:
        rules = msgspec.structs.replace(rules, unless_exit=(*rules.unless_exit, int(value)))
    return rules


_NOTIFICATION: Final = ("Always", "Complete", "Error", "Never")


def _accounting_commands(settings: JobSettings) -> Iterator[tuple[str, str]]:
    given = settings.attributes
    for key, command in (
        ("accountingGroup", "accounting_group"),
        ("accountingUser", "accounting_group_user"),
        ("concurrencyLimit", "concurrency_limits"),
        ("mailTo", "notify_user"),
    ):
        if given.get(key):
            yield command, str(given[key])
    if when := str(given.get("whenToMail") or ("Error" if given.get("mailTo") else "")):
        yield "notification", when.capitalize() if when.capitalize() in _NOTIFICATION else when


def _job_attributes(
    description: SubmitDescription, ctx: Context, attributes: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    settings = description.settings
    index = "$SUBSTR(JOB,1)" if description.index is None else str(description.index)
    yield "LongshoreRun", quoting.quote_attribute(ctx.run_token)
    yield "LongshoreJob", index
    yield "LongshoreName", f'"$({NAME})"'
    yield "bps_job_name", f'"$({NAME})"'
    yield "bps_job_label", quoting.quote_attribute(settings.label)
    own = f"$({QUANTA})" if description.quanta.own_parts else ""
    before, after = (
        quoting.quote_attribute(text)[1:-1] for text in (description.quanta.before, description.quanta.after)
    )
    yield "bps_job_quanta", f'"{before}{own}{after}"'
    if settings.attributes.get("preemptible") is False:
        yield "Preemptible", "false"
    yield from ((name, quoting.quote_attribute(value)) for name, value in attributes.items() if value)
