"""Sorts the jobs of a workflow into kinds that share a submit description, each with what is its own of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.contract.context import Context
from longshore.model.job import Job, JobSettings
from longshore.model.request import Request
from longshore.model.task import Command
from longshore.plan.commands import argv_of, as_assignment, as_line, exact_line, with_files, with_launcher, with_setup
from longshore.plan.tasks import VARIABLE, record_of
from longshore.services.htcondor import joblog, quoting

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

_SIMPLE: Final = re.compile(r"[A-Za-z0-9_@%+:,./^-]+(?: [A-Za-z0-9_@%+=:,./^-]+)*", re.ASCII)
"""Words with one blank between them in which nothing means anything to anybody."""
_ENV: Final = "/usr/bin/env"
"""What finds a program by its name, as a shell does; HTCondor knows programs by their paths only."""
_DELAYED: Final = "<ENV:"


class Kind(msgspec.Struct, kw_only=True):
    """Jobs with one submit description.

    Attributes
    ----------
    settings
        What they share, but for the amounts of their requests.
    plain
        Whether their names mean just themselves.
    indices, names, lines, variables, requests
        Of each job: its number, its name, its program with its arguments and its own variables in HTCondor's syntax,
        and what it asks for.
    unset
        Names of the variables that they have of their own.
    exported
        Names of those that the command itself sets.
    """

    settings: JobSettings
    plain: bool
    indices: list[int] = msgspec.field(default_factory=list)
    names: list[str] = msgspec.field(default_factory=list)
    lines: list[str] = msgspec.field(default_factory=list)
    variables: list[str] = msgspec.field(default_factory=list)
    requests: list[Request] = msgspec.field(default_factory=list)
    unset: frozenset[str] = frozenset()
    exported: frozenset[str] = frozenset()


class _Front(msgspec.Struct, frozen=True):
    """What stands in front of the commands of a profile."""

    group: int
    lines: tuple[str, ...]
    launcher: str
    exported: frozenset[str]
    tasks: bool

    @property
    def is_empty(self) -> bool:
        return not self.lines and not self.launcher


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
        self._run_dir = str(ctx.paths.root)
        self._paths = {name: file.path for name, file in workflow.files.items()}
        self._fronts: dict[int, _Front] = {}
        self._groups: dict[bytes, int] = {}
        self._kept: list[JobSettings] = []
        """Settings whose ids stand for them, so that they live as long as these."""

    def kinds(self) -> list[Kind]:
        """The kinds, in the order of their first jobs; the final job is one of its own, the last."""
        found: dict[tuple[object, ...], Kind] = {}
        last = len(self._workflow) - 1 if self._workflow.final else -1
        for index, job in enumerate(self._workflow):
            settings = job.settings
            front = self._fronts.get(id(settings)) or self._front(settings)
            plain = joblog.is_plain(job.name)
            own = front.tasks and job.tasks > 1
            if front.is_empty and not job.environment and not own and (line := _simple(job.command)):
                variables, unset, exported = "", _NONE, front.exported
            else:
                line, variables, unset, exported = self._whole(index, job, front)
            key = (front.group, plain, unset, exported, index == last)
            kind = found.get(key)
            if kind is None:
                kind = Kind(settings=settings, plain=plain, unset=unset, exported=exported)
                found[key] = kind
            kind.indices.append(index)
            kind.names.append(job.name)
            kind.lines.append(line)
            kind.variables.append(variables)
            kind.requests.append(settings.request)
        return list(found.values())

    def _front(self, settings: JobSettings) -> _Front:
        """What is the same for all commands of a profile."""
        self._kept.append(settings)
        unfit = {name: value for name, value in settings.environment.items() if not _can_be_given(value)}
        key = msgspec.json.encode(
            msgspec.structs.replace(settings, request=_shape_of(settings.request)), order="sorted"
        )
        front = _Front(
            group=self._groups.setdefault(key, len(self._groups)),
            lines=(*self._exports(unfit), *settings.setup),
            launcher=settings.launcher,
            exported=frozenset(unfit),
            tasks=settings.rules.resume_tasks,
        )
        self._fronts[id(settings)] = front
        return front

    def _exports(self, variables: Mapping[str, str]) -> list[str]:
        known = {"LONGSHORE_JOB_RUN_DIR": self._run_dir}
        return [f"export {as_assignment(name, value, known)}" for name, value in variables.items()]

    def _whole(self, index: int, job: Job, front: _Front) -> tuple[str, str, frozenset[str], frozenset[str]]:
        """Program and arguments, own variables, the names of these, and those that the command sets itself."""
        own = dict(job.environment)
        if front.tasks and job.tasks > 1:
            own[VARIABLE] = f"{self._run_dir}/{record_of(index)}"
        given = {name: value for name, value in own.items() if _can_be_given(value)}
        unfit = {name: value for name, value in own.items() if name not in given}
        command = self._known(with_files(job.command, self._paths))
        command = with_setup(with_launcher(command, front.launcher), (*front.lines, *self._exports(unfit)))
        return (
            program_line(command),
            quoting.environment(given),
            frozenset(given),
            front.exported | frozenset(unfit),
        )

    def _known(self, command: Command) -> Command:
        """The command with the run directory in the place of its variable."""
        mark = "<ENV:LONGSHORE_JOB_RUN_DIR>"
        if isinstance(command, str) or not any(mark in word for word in command):
            return command
        return tuple(word.replace(mark, self._run_dir) for word in command)


_NONE: Final[frozenset[str]] = frozenset()


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


def _simple(command: Command) -> str:
    """Program and arguments of a command that needs no quoting at all, the most common; empty for others."""
    if isinstance(command, str):
        # What a shell would read otherwise is left to `program_line`.
        return command if _SIMPLE.fullmatch(command) and argv_of(command)[0] != "/bin/sh" else ""
    line = " ".join(command)
    return line if _SIMPLE.fullmatch(line) and line.count(" ") + 1 == len(command) else ""


def program_line(command: Command) -> str:
    """Program and arguments in HTCondor's syntax, for a command with anything in it."""
    if not isinstance(command, str) and any(_DELAYED in word for word in command):
        command = f"exec {as_line(command)}"
    words = argv_of(command)
    if not all(map(quoting.fits, words)) or "=" in words[0]:
        line = command if isinstance(command, str) else f"exec {exact_line(command)}"
        words = quoting.packed(line)
    return quoting.arguments(words)


def programs(kind: Kind) -> tuple[str, list[str]]:
    """The executable of all jobs of a kind, and their arguments."""
    first = {line.partition(" ")[0] for line in kind.lines}
    program = next(iter(first))
    if len(first) == 1 and program.startswith("/") and quoting.PLAIN.fullmatch(program):
        return program, [line[len(program) + 1 :] for line in kind.lines]
    return _ENV, kind.lines


def of_each(kind: Kind) -> Iterator[tuple[int, str, str, str, Request]]:
    """Number, name, line, variables and request of each job."""
    return zip(kind.indices, kind.names, kind.lines, kind.variables, kind.requests, strict=True)
