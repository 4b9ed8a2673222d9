"""Refuses placeholders of other workflow systems in commands of a pipeline, with the right spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

import msgspec

from longshore.config.command_lines import PROVIDED
from longshore.config.merge import Node
from longshore.errors import ConfigError, ErrorDetail, Origin
from longshore.graphs.declarations import FileKind, PipelineDeclaration, TaskEntry
from longshore.model.wording import did_you_mean

_PART: Final = r"\.[A-Za-z_]\w*|\[(?:-?\d+|[A-Za-z_]\w*|'[^'\[\]]*'|\"[^\"\[\]]*\")\]"
_FOREIGN: Final = re.compile(
    # Doubled braces are text, and `${` belongs to the shell.
    r"(?<![{$])\{(?P<name>[A-Za-z_]\w*)(?P<parts>(?:" + _PART + r")+)(?::[^{}]*)?\}",
    re.ASCII,
)
_NUMBERED: Final = re.compile(r"\[-?\d+\]", re.ASCII)
_SHELL_VARIABLE: Final = re.compile(
    r"(?<!\$)\$\{(?P<braced>[A-Za-z_]\w*)\}|(?<![\\$])\$(?P<plain>[A-Za-z_]\w*)", re.ASCII
)
_MARKED: Final = re.compile(r"(?<![\w\\!{])!\{(?P<name>[A-Za-z_]\w*)\}(?!\})", re.ASCII)
"""A placeholder of Nextflow in a block for the shell."""
_QUOTED: Final = re.compile(r"'[^']*'")
_KEY: Final = re.compile(r"-?\w+", re.ASCII)
_ASSIGNMENTS: Final = (
    re.compile(r"(?:^|[\s;&|(`{])(\w+)(?:\[[^\]]*\])?\+?=", re.ASCII),
    re.compile(r"\b(?:for|select)\s+(\w+)", re.ASCII),
    re.compile(r"\bprintf\s+-v\s+(\w+)", re.ASCII),
    re.compile(r"\$\{(\w+):?=", re.ASCII),
    re.compile(r"\(\(\s*(?:\+\+|--)?(\w+)", re.ASCII),
    re.compile(r"--(?:argjson|arg|slurpfile|rawfile)\s+(\w+)", re.ASCII),
)
"""Forms that give the variable in their group a value."""
_SCRIPT_ASSIGNMENTS: Final = (
    re.compile(r"\b(\w+)\b\s*(?:\+\+|--|[-+*/.]?=(?![=~]))", re.ASCII),
    re.compile(r"\b(?:as|foreach)\s+\$(\w+)", re.ASCII),
)
"""The same in scripts of other languages, such as awk, Perl and jq, which single quotes keep from the shell."""
_NAMING: Final = re.compile(
    r"\b(?:read|mapfile|readarray|getopts|local|declare|typeset|export|unset|my|our)\b([^;&|\n]*)", re.ASCII
)
"""Commands of the shell that give values to the variables that follow."""
_BASES: Final = frozenset({"wildcards", "input", "output", "params", "resources", "config", "log", "meta", "task"})
"""Names before a dot or a bracket in commands of other systems."""
_NO_NAMES: Final = "A job without a task has no dimensions and no datasets."


class ConfiguredCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Command beside the pipeline: ``runQuantumCommand`` of a task, or the command of a job without a task."""

    label: str
    """Label of the task or the job."""
    whole: Node
    """All of the command: its text or its list."""
    words: tuple[Node, ...]
    """Its texts."""


class CommandContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration has for commands."""

    shell_variables: frozenset[str] = frozenset()
    """Variables that the environment of jobs has."""
    commands: tuple[ConfiguredCommand, ...] = ()
    """Commands beside the pipeline."""
    has_path: Callable[[str], bool] = lambda _: False
    """Whether there is a value at a path such as ``a.b``."""


def configured_commands(description: PipelineDeclaration, context: CommandContext) -> Iterator[tuple[TaskEntry, Node]]:
    """Yield the texts of commands beside the pipeline, each with its task; a job without a task has no names."""
    for command in context.commands:
        task = description.tasks.get(command.label)
        if task is None:
            task = TaskEntry(
                label=command.label,
                origin=command.whole.origin,
                command=command.whole,
                dimensions=(),
                inputs={},
                outputs={},
                after={},
            )
        else:
            task = msgspec.structs.replace(task, command=command.whole)
        yield from ((task, word) for word in command.words)


def refuse_foreign_placeholders(
    commands: Iterable[tuple[TaskEntry, Node]], description: PipelineDeclaration, context: CommandContext
) -> None:
    """Refuse commands with placeholders that no value would replace; all of them are told.

    `commands` has the words of commands, with their tasks. A word that several tasks have is told once.

    Raises
    ------
    ConfigError
        There is such a placeholder.
    """
    told: dict[tuple[int, str | int | None], ErrorDetail] = {}
    for task, word in commands:
        for fault in _find_faults(word.text, word.origin, task, description, context):
            told.setdefault((id(word), fault.part), fault)
    found = list(told.values())
    if not found:
        return
    others = f" (and {len(found) - 1} more)" if found[1:] else ""
    error = ConfigError(found[0].message + others, origin=found[0].origin, hint=found[0].hint)
    error.part = found[0].part
    error.details = tuple(found) if found[1:] else ()
    raise error


def _find_faults(
    text: str, origin: Origin, task: TaskEntry, description: PipelineDeclaration, context: CommandContext
) -> Iterator[ErrorDetail]:
    """Yield each different placeholder of a text that nothing replaces, where it stands first."""
    is_task = task.label in description.tasks
    what = f"the command of the {'task' if is_task else 'job'} '{task.label}' uses"
    faults: dict[str, tuple[int, ErrorDetail]] = {}
    for found in _foreign_placeholders(text, task, description):
        written = found.group()
        path = found["name"] + found["parts"]
        if context.has_path(path):
            guess = f"Did you mean '{{.{path}}}'?"
        else:
            guess = _right_spelling(found["name"], _KEY.findall(found["parts"]), task) if is_task else _NO_NAMES
        hint = f"{guess} If the text is meant, double the braces: '{{{written}}}'.".strip()
        message = f"{what} '{written}', which nothing replaces"
        fault = ErrorDetail(ConfigError.code, message, origin, hint, part=found.start())
        faults.setdefault(written, (found.start(), fault))
    names = frozenset((*description.dimensions, *description.datasets)) - context.shell_variables
    for found in _unset_variables(text, task, names):
        guess = f"Did you mean '{{{_variable_name(found)}}}'? Else set" if is_task else f"{_NO_NAMES} Set"
        hint = f"{guess} the variable in the command, or give it another name."
        message = f"{what} '{found.group()}', a variable of the shell that nothing sets"
        fault = ErrorDetail(ConfigError.code, message, origin, hint, part=found.start())
        faults.setdefault(found.group(), (found.start(), fault))
    for found in () if isinstance(task.command.value, list) else _MARKED.finditer(text):
        # Without a task, the name itself is an error where the command is rendered.
        if is_task and found["name"] in {*description.dimensions, *description.datasets}:
            hint = f"Did you mean '{{{found['name']}}}'? If the mark is meant, quote it alone: '\"!\"'."
            message = f"{what} '{found.group()}', of which the exclamation mark stays"
            fault = ErrorDetail(ConfigError.code, message, origin, hint, part=found.start())
            faults.setdefault(found.group(), (found.start(), fault))
    yield from (fault for _, fault in sorted(faults.values(), key=lambda each: each[0]))


def _unset_variables(text: str, task: TaskEntry, names: Collection[str]) -> Iterator[re.Match[str]]:
    """Variables of the shell with one of the names to which no part of the command gives a value."""
    words = task.command.value
    is_list = isinstance(words, list)
    whole = " ".join(word.text for word in words) if isinstance(words, list) else str(words)
    scripts = [(0, len(text))] if is_list else [found.span() for found in _QUOTED.finditer(text)]
    for found in _SHELL_VARIABLE.finditer(text):
        if _variable_name(found) not in names:
            continue
        # In R, `table$sample` is a column.
        is_member = text[: found.start()][-1:].isalnum() or text[: found.start()].endswith(("_", ")", "]"))
        in_script = any(start < found.start() < end for start, end in scripts)
        if not (is_member and in_script) and _variable_name(found) not in _set_variables(whole, is_script=is_list):
            yield found


def _variable_name(found: re.Match[str]) -> str:
    return found["braced"] or found["plain"]


def _foreign_placeholders(text: str, task: TaskEntry, description: PipelineDeclaration) -> Iterator[re.Match[str]]:
    known = _BASES | {*description.dimensions, *description.datasets}
    for found in _FOREIGN.finditer(text):
        name, parts = found["name"], found["parts"]
        # An array of awk has elements such as {n[NR]}.
        is_element = "." not in parts and not _NUMBERED.fullmatch(parts) and name not in known
        if not is_element and not _is_column(name, parts, task, description):
            yield found


def _is_column(name: str, parts: str, task: TaskEntry, description: PipelineDeclaration) -> bool:
    """Whether a placeholder is a column of the table that brought a dimension of the task."""
    entry = description.dimensions.get(name)
    from_table = entry is not None and entry.file is not None and entry.file.kind is FileKind.TABLE
    return from_table and name in task.dimensions and parts.count(".") == 1 and "[" not in parts


def _right_spelling(name: str, keys: list[str], task: TaskEntry) -> str:
    """Hint with the spelling that may have been meant."""
    known = (*task.dimensions, *task.inputs, *task.outputs)
    files = list({"input": task.inputs, "output": task.outputs}.get(name, ()))
    last = keys[-1]
    meant = ""
    if last in known:
        meant = last
    elif files and last.lstrip("-").isdigit() and -len(files) <= int(last) < len(files):
        meant = files[int(last)]
    elif len(files) == 1:
        meant = files[0]
    elif name in known:
        meant = name
    if meant:
        return f"Did you mean '{{{meant}}}'?"
    if variable := PROVIDED.get(last):
        return f"Did you mean '${variable}'?"
    names = ", ".join(f"'{{{each}}}'" for each in known)
    return did_you_mean(last, known) or (f"The task has {names}." if known else "")


def _set_variables(text: str, *, is_script: bool) -> set[str]:
    """Variables to which a command gives a value; in a script, the forms of other languages count everywhere."""
    names = {found[1] for pattern in _ASSIGNMENTS for found in pattern.finditer(text)}
    scripts = [text] if is_script else _QUOTED.findall(text)
    names |= {found[1] for script in scripts for pattern in _SCRIPT_ASSIGNMENTS for found in pattern.finditer(script)}
    return names.union(*(_KEY.findall(found[1]) for found in _NAMING.finditer(text)))
