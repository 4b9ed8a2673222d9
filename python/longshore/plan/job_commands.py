"""Commands of jobs: as words for the kernel, as lines for a shell, with files and variables substituted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Final

from longshore.config.templates import ATTEMPT_MARK, LESS_THAN
from longshore.model.tasks.file import is_remote
from longshore.model.tasks.task import Command
from longshore.model.workflow.job import JobSettings

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


def substitute_files(
    command: Command, paths: Mapping[str, str], *, folder: str = "<ENV:LONGSHORE_JOB_RUN_DIR>"
) -> Command:
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
