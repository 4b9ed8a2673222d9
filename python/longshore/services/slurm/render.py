"""Turns a batch into the text that ``sbatch`` is given, and the table of its members."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import jinja2
import msgspec

from longshore.contract.context import RunPaths
from longshore.contract.executor import Member
from longshore.plan.commands import exact_line
from longshore.services.slurm.asked import Component

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._:-]+")
_LONGEST: Final = 120


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What the template is given.

    Attributes
    ----------
    name
        Name of the job: the tag by which it is found again.
    components
        Options per component.
    array
        Number of tasks; 0 for a single job.
    raw
        Raw options, as their authors wrote them.
    folder
        Where the job starts.
    output
        Where Slurm itself writes; jobs have logs of their own.
    wrapper, table, ends
        The program that runs a member, its table, and where it leaves a record of the end.
    """

    name: str
    components: tuple[Component, ...]
    array: int
    raw: tuple[str, ...]
    folder: str
    output: str
    wrapper: str
    table: str
    ends: str
    comment: str
    export: str
    requeue: bool

    @property
    def lines(self) -> tuple[str, ...]:
        """Every ``#SBATCH`` line, without what begins it."""
        return tuple(_lines(self))

    @property
    def run(self) -> str:
        """The line that runs a member."""
        member = '"$((SLURM_ARRAY_TASK_ID + 1))"' if self.array else "1"
        words = " ".join(map(shlex.quote, ("/bin/sh", self.wrapper)))
        return f"exec {words} -m {member} -e {shlex.quote(self.ends)} {shlex.quote(self.table)}"


def _lines(script: Script) -> Iterator[str]:
    yield _option("job-name", script.name)
    if script.array:
        yield _option("array", f"0-{script.array - 1}")
    yield _option("comment", script.comment)
    yield _option("chdir", script.folder)
    yield _option("output", script.output)
    yield _option("open-mode", "append")
    yield _option("export", script.export)
    yield _option("requeue" if script.requeue else "no-requeue", None)
    for number, component in enumerate(script.components):
        if number:
            yield "hetjob"
        yield from (_option(name, value) for name, value in component.options)
    yield from script.raw


def _option(name: str, value: str | None) -> str:
    if value is None:
        return f"--{name}"
    return (
        f"--{name}={value}" if re.fullmatch(r"[\w@%+=:,./&|*\[\]-]*", value, re.ASCII) else f"--{name}={_quoted(value)}"
    )


def _quoted(value: str) -> str:
    """A value as sbatch's own reader of ``#SBATCH`` lines takes it: in double quotes, its quotes escaped."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def rendered(script: Script, template: str) -> str:
    """The text of the script."""
    # What comes out is a script for a shell, not a page: nothing in it is escaped.
    environment = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template).render(job=script)


def table(members: Sequence[Member], paths: RunPaths) -> Iterator[str]:
    """A line per member, as ``longshore-job`` reads it."""
    for member in members:
        words = " ".join(shlex.quote(f"{name}={value}") for name, value in member.environment.items())
        log = str(paths.root / member.log)
        fields = (
            str(member.job),
            member.name,
            str(member.attempt),
            member.working_directory,
            log,
            words,
            exact_line(member.command),
            "" if isinstance(member.command, str) else "words",
        )
        yield "\t".join(map(_one_line, fields)) + "\n"


def _one_line(field: str) -> str:
    return field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def job_name(tag: str, key: str = "") -> str:
    """A name that Slurm and its filters take: letters, digits and a few signs; cut, it is told apart by its hash."""
    plain = _ILLEGAL.sub("_", key + tag)
    if len(plain) <= _LONGEST:
        return plain
    digest = sha256(plain.encode()).hexdigest()[:10]
    return f"{plain[: _LONGEST - 11 - len(tag)]}-{digest}{_ILLEGAL.sub('_', tag)}"[:_LONGEST]


def export_of(inherit: Any, names: Sequence[str] = ()) -> str:
    """Value of ``--export``: which variables of the submitter a job inherits."""
    if inherit in (None, "all"):
        return "ALL"
    return "NIL" if inherit == "none" or not names else ",".join(names)
