"""Turns an attempt of a job into a POSIX shell script that runs it by hand as its engine would."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from longshore.model.task import Command
from longshore.plan.commands import SHELL, command_argv, shell_line

_DELAYED: Final = re.compile(r"<ENV:[A-Za-z_]\w*>", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class JobScript(msgspec.Struct, frozen=True, kw_only=True):
    """All that such a script is made of.

    Attributes
    ----------
    title
        What it runs, in a line.
    command
        The command, with its set-up and the paths of its files in place.
    environment
        The variables that the run sets.
    hidden
        Names of those whose values must not be shown: whoever runs the script sets them.
    umask
        Permissions that files of the run lack; ``None`` leaves that to the caller.
    """

    title: str
    command: Command
    environment: Mapping[str, str]
    working_directory: str
    hidden: frozenset[str] = frozenset()
    umask: int | None = None


def render_job_script(job: JobScript) -> str:
    """The script's text.

    Like the job, the command reads nothing and has a temporary directory of its own; its output goes where the script's
    goes. The script can be piped to a shell: what the command would read is not the rest of it.
    """
    lines = [
        f"#!{SHELL}",
        f"# {' '.join(job.title.split())}",
        "# Run by hand: the record of the run does not learn of it. Its other variables are those of your shell.",
    ]
    lines += [_demand(name) for name in sorted(job.hidden)]
    if job.umask is not None:
        lines.append(f"umask {job.umask:04o}")
    lines += [
        f"CDPATH= cd -- {shlex.quote(job.working_directory)} || exit 126",
        "_tmp=$(mktemp -d) || exit 126",
        "trap 'rm -rf \"$_tmp\"' EXIT",
        "trap 'exit 130' INT",
        "trap 'exit 143' TERM",
        "env -- \\",
        *(
            f"    {_assignment(name, value, job.hidden)} \\"
            for name, value in job.environment.items()
            if name not in job.hidden or _VARIABLE.fullmatch(name)
        ),
        '    TMPDIR="$_tmp" \\',
        f"    {_words(job.command)} </dev/null",
        "exit $?",
    ]
    return "\n".join(lines) + "\n"


def _demand(name: str) -> str:
    if _VARIABLE.fullmatch(name):
        return f': "${{{name}:?its value is a secret: set it first}}"'
    # No shell has a variable of such a name to take the value from.
    return f"# The variable {shlex.quote(name)} is left out: its value is a secret.".replace("\n", " ")


def _assignment(name: str, value: str, hidden: Iterable[str]) -> str:
    if name in hidden:
        # It is the shell's already, and must be a variable of the command's too.
        return f'{name}="${{{name}}}"'
    return shlex.quote(f"{name}={value}")


def _words(command: Command) -> str:
    """What env is to start: the words themselves where a kernel would get them, a line for a shell elsewhere."""
    words = command_argv(command)
    if not words:
        return "''"
    delayed = not isinstance(command, str) and any(map(_DELAYED.search, words))
    # A first word with '=' would be a variable to env.
    if not delayed and "=" not in words[0]:
        return " ".join(map(shlex.quote, words))
    return f"{SHELL} -c {shlex.quote(f'exec {shell_line(command)}')}"
