"""Sorts the jobs of a workflow into kinds that share a submit description, each with what is its own of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.contract.context import Context
from longshore.model.tasks.task import Command
from longshore.model.workflow.job import Job, JobSettings
from longshore.model.workflow.request import Request
from longshore.plan.job_commands import (
    add_launcher,
    add_setup,
    add_user_lines,
    command_argv,
    exact_shell_line,
    shell_assignment,
    shell_line,
    substitute_files,
)
from longshore.plan.task_script import TASKS_DONE_VARIABLE, task_record_path
from longshore.services.htcondor.render import log_names, quoting, transfer
from longshore.services.htcondor.render.transfer import Carried

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

_ENV: Final = "/usr/bin/env"
"""What finds a program by its name, as a shell does; HTCondor knows programs by their paths only."""
_DELAYED: Final = "<ENV:"
_BETWEEN: Final = "\x1f"
_BREAK: Final = "\n"
_OWN: Final = "0LongshoreOwn0"
"""Stands for what is a job's own of a command while the rest of it is quoted."""
_OWN_SIGNS: Final = re.compile(r"[A-Za-z0-9_@%+:,./\n-]*", re.ASCII)
"""What may be a job's own of a command without being looked at: signs that mean nothing to anybody."""


class Text(msgspec.Struct, frozen=True):
    """Texts of many jobs in HTCondor's syntax: what they begin and end with alike, and what is each job's own.

    ``own`` is empty where all texts are alike.
    """

    before: str
    after: str
    own: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Text:
        """Take texts apart."""
        if texts.count(texts[0]) == len(texts):
            return cls(texts[0], "", ())
        before, after = quoting.split(texts)
        return cls(before, after, [text[len(before) : len(text) - len(after)] for text in texts])


class Kind(msgspec.Struct, kw_only=True):
    """Jobs with one submit description.

    Attributes
    ----------
    settings
        What they share, but for the amounts of their requests.
    plain
        Whether their names mean just themselves.
    unset
        Names of the variables that they have of their own.
    exported
        Names of those that the command itself sets.
    indices, names, commands, variables, requests, quanta
        Of each job: its number, its name, its command with what is in front of it, its own variables in HTCondor's
        syntax, what it asks for, and how many tasks of which labels it runs.
    carried
        Of each job the files that HTCondor carries; empty where jobs see the run directory.
    """

    settings: JobSettings
    front: Front
    plain: bool
    unset: frozenset[str] = frozenset()
    exported: frozenset[str] = frozenset()
    indices: list[int] = msgspec.field(default_factory=list)
    names: list[str] = msgspec.field(default_factory=list)
    commands: list[Command] = msgspec.field(default_factory=list)
    variables: list[str] = msgspec.field(default_factory=list)
    requests: list[Request] = msgspec.field(default_factory=list)
    quanta: list[str] = msgspec.field(default_factory=list)
    carried: list[Carried] = msgspec.field(default_factory=list)


class Front(msgspec.Struct, frozen=True):
    """What stands in front of the commands of a profile.

    Attributes
    ----------
    group
        The same for profiles that differ in nothing but amounts of their requests.
    lines
        Lines of shell.
    launcher
        What starts the command.
    before, after
        Lines of shell of the user's own around the command.
    exported
        Names of the variables that the lines set.
    tasks
        Whether jobs of several tasks remember which are done.
    """

    group: int
    lines: tuple[str, ...]
    launcher: str
    before: str
    after: str
    exported: frozenset[str]
    tasks: bool


class Sorter:
    """Sorts jobs into kinds.

    Parameters
    ----------
    workflow
        The workflow.
    ctx
        The run and its site.
    """

    def __init__(self, workflow: Workflow, ctx: Context) -> None:
        self._workflow = workflow
        self.attributes = workflow.attributes
        self._root = str(ctx.paths.root)
        self._carries = transfer.is_wanted(ctx)
        self._run_dir = transfer.HERE if self._carries else self._root
        self._paths = (
            transfer.paths_there(workflow.files)
            if self._carries
            else {name: file.path for name, file in workflow.files.items()}
        )
        self._fronts: dict[int, Front] = {}
        self._groups: dict[bytes, int] = {}
        self._kept: list[JobSettings] = []
        """Settings whose ids stand for them, so that they live as long as these."""

    def kinds(self) -> list[Kind]:
        """The kinds, in the order of their first jobs; the final job is one of its own, the last."""
        found: dict[tuple[object, ...], Kind] = {}
        last = len(self._workflow) - 1 if self._workflow.final else -1
        fronts, is_plain = self._fronts, log_names.is_plain
        files, carries = transfer.NOTHING, (False, False)
        for index, job in enumerate(self._workflow):
            settings, command = job.settings, job.command
            front = fronts.get(id(settings)) or self._front(settings)
            variables, unset, exported = "", _NONE, front.exported
            if job.environment or (job.tasks > 1 and front.tasks):
                variables, unset, command, exported = self._own(index, job, front)
            if self._carries:
                files = transfer.carried(job, self._workflow.files, self._root)
                carries = (bool(files.inputs), bool(files.outputs))
            key = (front.group, is_plain(job.name), command.__class__ is str, unset, exported, index == last, carries)
            kind = found.get(key)
            if kind is None:
                kind = Kind(settings=settings, front=front, plain=key[1], unset=unset, exported=exported)
                found[key] = kind
            kind.indices.append(index)
            kind.names.append(job.name)
            kind.commands.append(command)
            kind.variables.append(variables)
            kind.requests.append(settings.request)
            kind.quanta.append(_quanta(job))
            if self._carries:
                kind.carried.append(files)
        return list(found.values())

    def _front(self, settings: JobSettings) -> Front:
        """What is the same for all commands of a profile."""
        self._kept.append(settings)
        unfit = {name: value for name, value in settings.environment.items() if not _can_be_given(value)}
        alike = msgspec.structs.replace(settings, request=_shape_of(settings.request))
        key = msgspec.json.encode(alike, order="sorted")
        front = Front(
            group=self._groups.setdefault(key, len(self._groups)),
            lines=(*self._exports(unfit), *settings.setup),
            launcher=settings.launcher,
            before=str(settings.attributes.get("preCmdline") or ""),
            after=str(settings.attributes.get("postCmdline") or ""),
            exported=frozenset(unfit),
            tasks=settings.rules.resume_tasks,
        )
        self._fronts[id(settings)] = front
        return front

    def _exports(self, variables: Mapping[str, str]) -> list[str]:
        known = {"LONGSHORE_JOB_RUN_DIR": self._run_dir}
        return [f"export {shell_assignment(name, value, known)}" for name, value in variables.items()]

    def _own(self, index: int, job: Job, front: Front) -> tuple[str, frozenset[str], Command, frozenset[str]]:
        """Own variables of a job, their names, its command, and the names of the variables that the command sets."""
        own = dict(job.environment)
        if job.tasks > 1 and front.tasks:
            own[TASKS_DONE_VARIABLE] = f"{self._run_dir}/{task_record_path(index)}"
        given = {name: value for name, value in own.items() if _can_be_given(value)}
        unfit = {name: value for name, value in own.items() if name not in given}
        command = add_setup(job.command, self._exports(unfit)) if unfit else job.command
        return quoting.environment(given), frozenset(given), command, front.exported | frozenset(unfit)

    # -------------------------------------------------------------------------------------------------- the commands

    def programs(self, kind: Kind) -> tuple[str, Text]:
        """The executable of all jobs of a kind, and their arguments."""
        # Most often commands differ in a few letters: the rest of them is the same work for all.
        text = self._alike(kind) or Text.of([self._line(command, kind.front) for command in kind.commands])
        program, blank, rest = text.before.partition(" ")
        if program.startswith("/") and quoting.PLAIN.fullmatch(program) and (blank or not text.own):
            return program, Text(rest, text.after, text.own)
        return _ENV, text

    def _alike(self, kind: Kind) -> Text | None:
        """The programs and arguments of commands that differ in nothing that has to be quoted."""
        commands = [command if isinstance(command, str) else _BETWEEN.join(command) for command in kind.commands]
        if not isinstance(kind.commands[0], str):
            counted = zip(commands, kind.commands, strict=True)
            if any(joined.count(_BETWEEN) >= len(words) for joined, words in counted):
                # A word has that sign itself.
                return None
        before, after = quoting.split(commands)
        before, after = _out_of_marks(before, after)
        begin, end = len(before), len(after)
        own = [command[begin : len(command) - end] for command in commands]
        if not any(own):
            return Text(self._line(kind.commands[0], kind.front), "", ())
        is_line = isinstance(kind.commands[0], str)
        if not _can_wait(before, after, own, is_line=is_line):
            return None
        whole = f"{before}{_OWN}{after}"
        line = self._line(whole if is_line else tuple(whole.split(_BETWEEN)), kind.front)
        head, _, tail = line.partition(_OWN)
        return None if _OWN in tail else Text(head, tail, own)

    def _line(self, command: Command, front: Front) -> str:
        """Program and arguments in HTCondor's syntax."""
        placed = add_launcher(self._known(substitute_files(command, self._paths)), front.launcher)
        return program_line(add_setup(add_user_lines(placed, front.before, front.after), front.lines))

    def _known(self, command: Command) -> Command:
        """The command with the run directory in the place of its variable."""
        mark = "<ENV:LONGSHORE_JOB_RUN_DIR>"
        if isinstance(command, str) or not any(mark in word for word in command):
            return command
        return tuple(word.replace(mark, self._run_dir) for word in command)


_NONE: Final[frozenset[str]] = frozenset()


def _out_of_marks(before: str, after: str) -> tuple[str, str]:
    """A beginning and an end that do not cut a ``<FILE:x>`` in two."""
    if before.rfind("<") > before.rfind(">"):
        before = before[: before.rfind("<")]
    close, opened = after.find(">"), after.find("<")
    if close >= 0 and (opened < 0 or close < opened):
        after = after[close + 1 :]
    return before, after


def _can_wait(before: str, after: str, own: Sequence[str], *, is_line: bool) -> bool:
    """Whether what is a job's own is the same whatever the rest of the command is put into."""
    together = _BREAK.join(own)
    if not _OWN_SIGNS.fullmatch(together) or together.count(_BREAK) >= len(own) or _OWN in before + after:
        return False
    if is_line:
        # The first word decides how a line is read: a shell may know it, and it may be an assignment.
        return " " in before.strip(" ")
    # A word that is empty has to be quoted.
    return _BETWEEN in before and (all(own) or before[-1] != _BETWEEN or after[:1] not in {"", _BETWEEN})


def _quanta(job: Job) -> str:
    """How many tasks of which labels a job runs, as BPS writes it."""
    if job.quanta == ():
        return f"{job.label}:{job.tasks}"
    return ";".join(f"{label}:{count}" for label, count in job.quanta_counts.items())


def _shape_of(request: Request) -> Request:
    """The request with what may differ from job to job of one description taken out; whether it is there stays."""
    return msgspec.structs.replace(
        request,
        cpus=1,
        memory_b=request.memory_b and 1,
        disk_b=request.disk_b and 1,
        walltime_s=request.walltime_s and 1.0,
    )


def _can_be_given(value: str) -> bool:
    return _DELAYED not in value and quoting.fits(value)


def program_line(command: Command) -> str:
    """Program and arguments in HTCondor's syntax, for a command with anything in it."""
    if not isinstance(command, str) and any(_DELAYED in word for word in command):
        command = f"exec {shell_line(command)}"
    words = command_argv(command)
    if not all(map(quoting.fits, words)) or "=" in words[0]:
        line = command if isinstance(command, str) else f"exec {exact_shell_line(command)}"
        words = quoting.packed(line)
    return quoting.arguments(words)
