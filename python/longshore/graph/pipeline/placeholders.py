"""Refuses placeholders of other workflow systems in commands of a pipeline, with the right spelling."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from longshore.config.profile.placeholder_advice import PROVIDED
from longshore.config.values.merge import Node
from longshore.errors import ConfigError, ErrorDetail
from longshore.graph.declaration.description import FileKind, PipelineDeclaration, TaskEntry
from longshore.model.suggestions import did_you_mean
from longshore.origin import Origin

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


def refuse_foreign_placeholders(
    commands: Iterable[tuple[TaskEntry, Node]], description: PipelineDeclaration, shell_variables: Collection[str] = ()
) -> None:
    """Refuse commands with placeholders that no value would replace; all of them are told.

    `commands` has the words of commands, with their tasks. `shell_variables` are variables that the environment of jobs
    has.

    Raises
    ------
    ConfigError
        There is such a placeholder.
    """
    found = [
        fault
        for task, word in commands
        for fault in _find_faults(str(word.value), word.origin, task, description, shell_variables)
    ]
    if not found:
        return
    others = f" (and {len(found) - 1} more)" if found[1:] else ""
    error = ConfigError(found[0].message + others, origin=found[0].origin, hint=found[0].hint)
    error.part = found[0].part
    error.details = tuple(found) if found[1:] else ()
    raise error


def _find_faults(
    text: str, origin: Origin, task: TaskEntry, description: PipelineDeclaration, shell_variables: Collection[str]
) -> Iterator[ErrorDetail]:
    """Yield each different placeholder of a text that nothing replaces, where it stands first."""
    what = f"the command of the task '{task.label}' uses"
    faults: dict[str, tuple[int, ErrorDetail]] = {}
    for found in _foreign_placeholders(text, task, description):
        written = found.group()
        guess = _right_spelling(found["name"], _KEY.findall(found["parts"]), task)
        hint = f"{guess} If the text is meant, double the braces: '{{{written}}}'.".strip()
        message = f"{what} '{written}', which nothing replaces"
        fault = ErrorDetail(ConfigError.code, message, origin, hint, part=found.start())
        faults.setdefault(written, (found.start(), fault))
    names = {*description.dimensions, *description.datasets}
    for found, why, hint in _find_shell_faults(text, task, names, shell_variables):
        written = found.group()
        fault = ErrorDetail(ConfigError.code, f"{what} '{written}', {why}", origin, hint, part=found.start())
        faults.setdefault(written, (found.start(), fault))
    yield from (fault for _, fault in sorted(faults.values(), key=lambda each: each[0]))


def _find_shell_faults(
    text: str, task: TaskEntry, names: Collection[str], shell_variables: Collection[str]
) -> Iterator[tuple[re.Match[str], str, str]]:
    """Yield each name of the pipeline that is written as a variable of a shell, with the fault and the remedy."""
    for found in _unset_variables(text, task, frozenset(names) - frozenset(shell_variables)):
        name = _variable_name(found)
        hint = f"Did you mean '{{{name}}}'? Else set the variable in the command, or give it another name."
        yield found, "a variable of the shell that nothing sets", hint
    for found in () if isinstance(task.command.value, list) else _MARKED.finditer(text):
        if found["name"] in names:
            hint = f"Did you mean '{{{found['name']}}}'? If the mark is meant, quote it alone: '\"!\"'."
            yield found, "of which the exclamation mark stays", hint


def _unset_variables(text: str, task: TaskEntry, names: Collection[str]) -> Iterator[re.Match[str]]:
    """Variables of the shell with one of the names to which no part of the command gives a value."""
    words = task.command.value
    is_list = isinstance(words, list)
    whole = " ".join(str(word.value) for word in words) if isinstance(words, list) else text
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
