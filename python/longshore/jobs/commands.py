"""The command of a job: words for the kernel or lines for a shell, its files, variables and logs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from longshore.config.command_lines import ShellLine
from longshore.config.templates import (
    ATTEMPT_MARK,
    LESS_THAN,
    Quotation,
    ShellContext,
    Template,
    format_value,
    is_value,
    split_fields,
)
from longshore.contract.service import RUN_FOLDER, RUN_FOLDER_VARIABLE, file_name, log_path
from longshore.model.tasks import Command, DataId, is_remote
from longshore.model.workflow import MIB, JobSettings, Request

# Commands of jobs: as words for the kernel, as lines for a shell, with files and variables substituted.


SHELL: Final = "/bin/sh"

_PLAIN: Final = re.compile(r"(?!\s*(?:%|[A-Za-z_]\w*\+?=))[^\x00-\x08\x0a-\x1f|&;<>()$`\\\"'*?\[\]#~{}!]*")
"""Line without signs that mean something to a POSIX shell (2.2, with the bracket and brace of some shells), and which
begins with no assignment and no job. A search for such signs takes twice as long."""

_ENV_MARK: Final = "<ENV:"
_ENV_PLACEHOLDER: Final = re.compile(r"<ENV:([A-Za-z_]\w*)>", re.ASCII)
"""BPS's way of naming a variable of the job's environment before there is a job."""

_LESS_THAN_NAME: Final = LESS_THAN[len(_ENV_MARK) : -1]

_FILE_MARK: Final = "<FILE:"
_FILE_PLACEHOLDER: Final = re.compile(r"<FILE:([^<>]+)>")
_FILE_SPLIT: Final = re.compile(r"(<FILE:[^<>]+>)")
"""BPS's way of naming a file of the workflow before it is known where that will be."""

_WMS_MARK: Final = "<WMS:"

_RUN_FOLDER: Final = r"(?:\$\{LONGSHORE_JOB_RUN_DIR-?\}|<ENV:LONGSHORE_JOB_RUN_DIR>)"
_OUTSIDE_QUOTES: Final = re.compile(r"\\.|'[^']*'|" + '"' + _RUN_FOLDER + '"|' + _RUN_FOLDER + '|"', re.DOTALL)
_INSIDE_QUOTES: Final = re.compile(r"\\.|" + _RUN_FOLDER + '|"', re.DOTALL)
"""Parts of a line at which its quotation changes, or at which the run directory stands."""

_QUOTED_RUN_FOLDER: Final = re.compile('"?' + _RUN_FOLDER + '"?')

_BUILT_IN: Final = re.compile(
    r"[!.:\[{}]|alias|bg|break|case|cd|command|continue|do|done|echo|elif|else|esac|eval|exec|exit|export|fc|fg|fi|for"
    r"|getopts|hash|if|in|jobs|kill|local|newgrp|printf|pwd|r|read|readonly|return|set|shift|source|test|then|time|times|trap"
    r"|type|ulimit|umask|unalias|unset|until|wait|while"
)
"""Words that only a shell understands, or in its own way (POSIX 2.4, 2.14 and 1.6; in mksh `r` repeats a command)."""

_BASH_BUILT_IN: Final = re.compile(
    r"builtin|caller|coproc|declare|dirs|disown|enable|function|let|mapfile|popd|pushd|readarray|select|shopt|suspend"
    r"|typeset|module|ml"
)
"""Words that some shells have beyond POSIX, and functions that clusters export to them."""

_FIRST_WORD: Final = re.compile(r"[ \t]*([\w./+-]+)(?=[ \t]+[^\s(]|[ \t]*(?:[|<>;&\n]|$))", re.ASCII)
"""First word of a line for the shell: no assignment, no quotation, no variable, and no function that is defined."""


def command_argv(command: Command) -> tuple[str, ...]:
    """Words to execute for a command.

    A line without shell syntax is split at blanks and executed directly, which is equivalent and faster.
    """
    if not isinstance(command, str):
        return command
    if _PLAIN.fullmatch(command):
        words = tuple(word for word in command.replace("\t", " ").split(" ") if word)
        if words and not _BUILT_IN.fullmatch(words[0]):
            return words
    return (SHELL, "-c", command)


def shell_line(command: Command) -> str:
    """Command as one line for a POSIX shell."""
    if isinstance(command, str):
        return command
    line = " ".join(map(_quote_word, command)) or "''"
    if command and _BUILT_IN.fullmatch(command[0]):
        # The program is meant, which the kernel would start, and not what the shell has of that name.
        return f"env {line}"
    # Quoted, it is no assignment.
    return f"''{line}" if command and "=" in command[0] else line


def exact_shell_line(command: Command) -> str:
    """Command as one line for a POSIX shell; each word is literal, placeholders too."""
    if isinstance(command, str):
        return command
    line = shlex.join(command) or "''"
    if command and _BUILT_IN.fullmatch(command[0]):
        return f"env {line}"
    return f"''{line}" if command and "=" in command[0] and line[0] not in "'\"" else line


def substitute_files(command: Command, paths: Mapping[str, str], *, folder: str = RUN_FOLDER) -> Command:
    """Replace each ``<FILE:x>`` of a command by the path of the workflow's file ``x``.

    Relative paths start in `folder`, by default the run directory, which the job knows.
    """
    if isinstance(command, str):
        return (
            _FILE_PLACEHOLDER.sub(lambda found: shell_line((_file_path(paths, found, folder),)), command)
            if _FILE_MARK in command
            else command
        )
    if not any(_FILE_MARK in word for word in command):
        return command
    return tuple(_FILE_PLACEHOLDER.sub(lambda found: _file_path(paths, found, folder), word) for word in command)


def _file_path(paths: Mapping[str, str], found: re.Match[str], folder: str) -> str:
    path = paths.get(found[1])
    if path is None:
        return found[0]
    return path if path.startswith("/") or is_remote(path) else f"{folder}/{path}"


def substitute_variables(command: Command, environment: Mapping[str, str]) -> Command:
    """Replace each ``<ENV:X>`` of a command by the job's variable, or by nothing if it is not set.

    Lines for a shell have no such placeholder: they use ``${X}``.
    """
    if isinstance(command, str) or not any(_ENV_MARK in word for word in command):
        return command
    return tuple(_substitute(word, environment) for word in command)


def substitute_inherited(environment: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """Replace each ``<ENV:X>`` in a job's variables by the inherited variable, or by nothing if it is not set.

    A variable that refers to itself, as in ``PATH: "$HOME/bin:${PATH}"``, means the inherited one.
    """
    return {name: _substitute(value, inherited) if _ENV_MARK in value else value for name, value in environment.items()}


def fill_attempt(text: str, number: int | str) -> str:
    """Text in which the number of the attempt, from 0, stands for its mark."""
    return text.replace(ATTEMPT_MARK, str(number)) if ATTEMPT_MARK in text else text


def fill_command_attempt(command: Command, number: int | str) -> Command:
    """Command in which the number of the attempt, from 0, stands for its mark."""
    if isinstance(command, str):
        return fill_attempt(command, number)
    return tuple(fill_attempt(word, number) for word in command) if names_attempt(command) else command


def names_attempt(command: Command) -> bool:
    """Whether a command has the mark of the attempt's number."""
    return any(ATTEMPT_MARK in word for word in ((command,) if isinstance(command, str) else command))


def shell_assignment(name: str, value: str, known: Mapping[str, str]) -> str:
    """``NAME=VALUE`` as one word for a POSIX shell, which substitutes each ``<ENV:X>`` that is not in `known`."""
    first, *others = _split_references(value, known)
    return _join_references(f"{name}={first}", others)


def _split_references(text: str, known: Mapping[str, str]) -> list[str]:
    """A text, and then variables that are not in `known` and texts in turn."""
    first, *others = _ENV_PLACEHOLDER.split(text)
    turns = [first]
    for variable, following in zip(others[::2], others[1::2], strict=True):
        if variable in known:
            turns[-1] += known[variable] + following
        elif variable == _LESS_THAN_NAME:
            turns[-1] += f"<{following}"
        else:
            turns += (variable, following)
    return turns


def _substitute(text: str, environment: Mapping[str, str]) -> str:
    return _ENV_PLACEHOLDER.sub(lambda found: "<" if found[0] == LESS_THAN else environment.get(found[1], ""), text)


def count_placeholders(text: str) -> int:
    """Number of placeholders in a text: ``<ENV:X>``, ``<FILE:x>``, and the mark of the attempt's number."""
    if "<" not in text:
        return 0
    return len(_ENV_PLACEHOLDER.findall(text)) + len(_FILE_PLACEHOLDER.findall(text)) + text.count(ATTEMPT_MARK)


def quote_literal(text: str) -> str:
    """Quote a text as one literal word for a POSIX shell; its placeholders are not substituted."""
    # In single quotes, for there is a sign in it that needs them.
    return shlex.quote(text).replace(_FILE_MARK, "<''FILE:").replace(_WMS_MARK, "<''WMS:")


def quote_template(text: str) -> str:
    """Quote a text as one word for a POSIX shell; its placeholders are substituted later."""
    # The number of an attempt needs no quotation marks, and may stand in them.
    pieces = _FILE_SPLIT.split(text)
    return "".join(piece if number % 2 else _quote_word(piece) for number, piece in enumerate(pieces) if piece)


def add_launcher(command: Command, launcher: str) -> Command:
    """Put a launcher in front of a command, as one line for a POSIX shell."""
    if not launcher:
        return command
    # What starts programs knows of no shell: a line for one is a word of its own.
    return (
        f"{launcher} {SHELL} -c {shlex.quote(command)}"
        if isinstance(command, str)
        else f"{launcher} {shell_line(command)}"
    )


def add_setup(command: Command, lines: Sequence[str]) -> Command:
    """Run setup lines before a command in the same shell, so that their variables are set."""
    if not lines:
        return command
    return "\n".join([*lines, command if isinstance(command, str) else f"exec {shell_line(command)}"])


def add_user_lines(command: Command, before: str, after: str) -> Command:
    """Run a user's lines before and after a command, in one shell.

    If the line before fails, the command does not run. The line after runs whether or not the command succeeds. The
    exit status is the command's, or that of the line after if the command succeeds.
    """
    if not before and not after:
        return command
    lines = [before, '_status=$?; [ "$_status" -eq 0 ] || exit "$_status"'] if before else []
    if not after:
        return "\n".join([*lines, command if isinstance(command, str) else f"exec {shell_line(command)}"])
    # In a shell of its own: an `exit` in it must not keep the line after it from being run.
    lines += ["(", shell_line(command), ")", "_status=$?", after]
    return "\n".join([*lines, '_after=$?; [ "$_status" -eq 0 ] || exit "$_status"; exit "$_after"'])


def full_command(command: Command, settings: JobSettings) -> Command:
    """Command of a job with its launcher, the user's lines before and after it, and its setup."""
    attributes = settings.attributes
    if not (settings.launcher or settings.setup or "preCmdline" in attributes or "postCmdline" in attributes):
        return command
    before, after = (str(attributes.get(key, "")) for key in ("preCmdline", "postCmdline"))
    return add_setup(add_user_lines(add_launcher(command, settings.launcher), before, after), settings.setup)


def command_program(command: Command) -> str | None:
    """Program of a command; ``None`` if only a shell can tell."""
    if not isinstance(command, str):
        return command[0]
    if not _PLAIN.fullmatch(command):
        return None
    # The same as the first word of `command_argv`, of which there may be hundreds of thousands.
    word = command.replace("\t", " ").lstrip(" ").partition(" ")[0]
    if word == SHELL:
        return None if command_argv(command)[:2] == (SHELL, "-c") else word
    return word if word and not _is_built_in(word) else None


@lru_cache(maxsize=256)
def _is_built_in(word: str) -> bool:
    return _BUILT_IN.fullmatch(word) is not None


def shell_program(command: Command) -> str | None:
    """First program that a shell line starts, if its first word is surely one; ``None`` otherwise."""
    found = _FIRST_WORD.match(command) if isinstance(command, str) and not _PLAIN.fullmatch(command) else None
    word = found[1] if found else None
    return None if word is None or _BUILT_IN.fullmatch(word) or _BASH_BUILT_IN.fullmatch(word) else word


def _quote_word(word: str) -> str:
    """Quote a word for a shell, which substitutes its ``<ENV:X>``."""
    first, *others = _split_references(word, {})
    return _join_references(first, others)


def _join_references(first: str, others: Sequence[str]) -> str:
    """Quote a text followed by variables and texts in turn, as one word for a shell."""
    if not others:
        return shlex.quote(first)
    # With the dash, for a shell that was told so (set -u) refuses variables that are not set.
    variables = (f'"${{{name}-}}"' for name in others[::2])
    literal = (shlex.quote(text) if text else "" for text in (first, *others[1::2]))
    return "".join(text + variable for text, variable in zip_longest(literal, variables, fillvalue=""))


def insert_run_folder(line: str, root: Path) -> str:
    """Return a line in which the run directory is a text and no variable, quoted as its place needs."""
    return "".join(_with_run_folder(line, str(root)))


def _with_run_folder(line: str, root: str) -> Iterator[str]:
    place, in_double = 0, False
    while found := (_INSIDE_QUOTES if in_double else _OUTSIDE_QUOTES).search(line, place):
        part = found[0]
        yield line[place : found.start()]
        place = found.end()
        if part == '"':
            in_double = not in_double
        elif part.startswith("'"):
            # The line of another shell, such as that of sh -c.
            part = re.sub(_RUN_FOLDER, lambda _: root.replace("'", "'\\''"), part)
        elif _QUOTED_RUN_FOLDER.fullmatch(part):
            part = re.sub(r'([\\"$`])', r"\\\1", root) if in_double else shlex.quote(root)
        yield part
    yield line[place:]


# Values of a job in a line for the shell: each stays itself in any quotation marks.


_MARK_NAME: Final = re.compile(r"\b(FILE|WMS):")
"""What is substituted later in a command, unless it is a value's own text."""
_SPECIAL_IN_DOUBLE: Final = re.compile(r'(["\\$`])')


class _Quoted(str):
    """Text that is quoted for a shell already."""

    __slots__ = ()

    def __str__(self) -> str:
        # Not a plain copy, which would be quoted once more.
        return self


def render_line(line: Template, values: Mapping[str, Any]) -> str:
    """Substitute the values of a job in a line for the shell; several files are several words.

    In a `ShellLine`, a value in quotation marks is exactly the value, and several files are joined by blanks.

    Raises
    ------
    UndefinedVariableError
        A value is missing.
    ConfigError
        A value does not suit its format specification.
    """
    if isinstance(line, ShellLine) and not line.is_plain:
        return "".join(_render_parts(line, values))
    for name in line.names:
        if type(values.get(name)) is tuple:
            # Only what the line uses is made fit for it: of a hundred thousand jobs, quoting takes most of the time.
            used = {name: _quote_files(values[name]) for name in line.names if name in values}
            return line.render(used, quote=_quote)
    return line.render(values, quote=_quote_cached)


def _render_parts(line: ShellLine, values: Mapping[str, Any]) -> Iterator[str]:
    contexts = iter(line.contexts)
    for part in line.parts:
        if isinstance(part, str):
            yield _write_texts((str(part),), next(contexts)) if is_value(part) else part
            continue
        context = next(contexts)
        value = values.get(part.name)
        if isinstance(value, tuple):
            yield _write_texts(value, context)
        elif value is None:
            yield Template((part,), line.origin).render(values)
        else:
            yield _write_texts((format_value(value, part, line.origin),), context)


def _write_texts(texts: tuple[str, ...], context: ShellContext) -> str:
    """Write texts where a field stands."""
    quotation = context.quotation
    if quotation is Quotation.COMMENT:
        return " ".join(texts).replace("\n", " ")
    if quotation in _WRITERS:
        is_script = quotation in (Quotation.SINGLE_SCRIPT, Quotation.DOUBLE_SCRIPT)
        written = _WRITERS[quotation](" ".join(map(quote_literal, texts) if is_script else texts))
        # The backslash would quote what begins the value; a second one makes it a plain sign, as it is elsewhere.
        needed = context.after_backslash and (not written or written[0] in '\\"$`\n')
        return f"\\{written}" if needed else written
    written = " ".join(map(quote_literal, texts))
    # A backslash before the end of a line is nothing.
    return f"\n{written}" if context.after_backslash and (not written or written[0] == "'") else written


def _write_in_single(text: str) -> str:
    """Write a text within single quotation marks."""
    return _MARK_NAME.sub(r"\1'':", text.replace("'", "'\"'\"'"))


def _write_in_double(text: str) -> str:
    """Write a text within double quotation marks."""
    return _MARK_NAME.sub(r'\1"":', _SPECIAL_IN_DOUBLE.sub(r"\\\1", text))


_WRITERS: Final[Mapping[Quotation, Callable[[str], str]]] = {
    Quotation.SINGLE: _write_in_single,
    Quotation.SINGLE_SCRIPT: _write_in_single,
    Quotation.DOUBLE: _write_in_double,
    Quotation.DOUBLE_SCRIPT: _write_in_double,
}


def _quote_files(value: Any) -> Any:
    """Quote several files as several words."""
    return _Quoted(" ".join(map(quote_literal, value))) if isinstance(value, tuple) else value


def _quote(text: str) -> str:
    # What a value is written as, its format applied, is data whatever signs it has in it: the shell must see one word.
    return text if isinstance(text, _Quoted) else _quote_cached(text)


_quote_cached = lru_cache(maxsize=4096)(quote_literal)
"""Jobs of one dimension or another have most of their values in common."""


# Environment variables of a job: its name, request and attempt (``LONGSHORE_JOB_*``), threads, and GPUs.


THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""Variables that set the thread count of libraries; the default is a thread per visible processor."""
GPU_RESOURCES: Final = ("gpus", "gpu")
"""Names of resources that are GPUs."""
GPU_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that restrict a process to some GPUs.

Not ``ROCR_VISIBLE_DEVICES``: it renumbers the GPUs from 0, so that both together would hide all.
"""


def thread_variables(cpus: int) -> dict[str, str]:
    """Variables that set the thread count of libraries."""
    return dict.fromkeys(THREAD_VARIABLES, str(cpus))


def identity_variables(identities: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Variables with the members of each resource that a job got."""
    variables = {}
    for name, these in identities.items():
        words = ",".join(these)
        variables[f"LONGSHORE_JOB_RESOURCE_{resource_variable(name)}_IDS"] = words
        if name in GPU_RESOURCES:
            variables |= dict.fromkeys(GPU_VARIABLES, words)
    return variables


def resource_variable(name: str) -> str:
    """Name of a resource as part of a variable's name."""
    return re.sub(r"\W", "_", name, flags=re.ASCII).upper()


def job_variables(*, name: str, label: str, attempt: int, request: Request, run_dir: str) -> dict[str, str]:
    """Variables that describe a job to itself; values that are unknown are absent."""
    variables = {
        "LONGSHORE_JOB_NAME": name,
        "LONGSHORE_JOB_LABEL": label,
        "LONGSHORE_JOB_ATTEMPT": str(attempt),
        RUN_FOLDER_VARIABLE: run_dir,
        "LONGSHORE_JOB_CPUS": str(request.cpus),
    }
    if request.memory_b is not None:
        variables["LONGSHORE_JOB_MEMORY_MB"] = str(request.memory_b // MIB)
    if request.disk_b is not None:
        variables["LONGSHORE_JOB_DISK_MB"] = str(request.disk_b // MIB)
    for resource, amount in request.resources.items():
        variables[f"LONGSHORE_JOB_RESOURCE_{resource_variable(resource)}"] = str(amount)
    return variables


# Paths of attempts' logs, by ``subDirTemplate``.


def attempt_log_path(template: str, index: int, name: str, label: str, attempt: int, *, tags: DataId) -> str:
    """Path of an attempt's log, relative to the run directory.

    `template` is ``subDirTemplate``; an empty one means the usual folder.

    Raises `ConfigError` if a value does not fit its format in the template.
    """
    if not template:
        return log_path(index, name, label, attempt)
    return f"logs/{_folder(template, label, name, tags)}/{file_name(name)}.{attempt}.log"


def _folder(template: str, label: str, name: str, tags: DataId) -> str:
    values = {**tags, "label": label, "jobName": name, "jobLabel": label}
    # A value is one component of a path, or a part of one, whatever signs it has in it.
    plain = {key: value.replace("/", "_") if isinstance(value, str) else value for key, value in values.items()}
    text = _parse_cached(template).render(plain, missing="")
    # What a job lacks leaves no trace, and nothing leads out of the run directory.
    return "/".join(file_name(part) for part in text.split("/") if part not in {"", ".", ".."}) or "_"


@lru_cache(maxsize=8)
def _parse_cached(template: str) -> Template:
    return Template(split_fields(template))
