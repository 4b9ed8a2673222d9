"""Scripts: the commands of a cluster's tasks as one, and an attempt of a job to run by hand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

import msgspec

from longshore.config.secrets import secret_spans
from longshore.jobs.commands import SHELL, command_argv, shell_assignment, shell_line
from longshore.model.tasks import Command

# Joins the commands of a cluster's tasks into one script that records which tasks are done. A retry of the job
# continues with the first task that is not done. The record is a file with a line per task, its number twice, as in
# ``3=3``: a line that is not as it was written does not count, and its task runs again. The variable
# `TASKS_DONE_VARIABLE` names the file. Without that variable, as by hand, the script runs all tasks.


TASKS_DONE_VARIABLE: Final = "LONGSHORE_JOB_TASKS_DONE"
"""Variable with the path of the record of done tasks."""
_FOLDER: Final = "tasks"
_PER_FOLDER: Final = 1000

_LINE: Final = re.compile(rb"([1-9][0-9]*)(=\1)?")
"""A line of a record; scripts of an older format write the number once."""


def join_commands(steps: Iterable[tuple[Command, int]]) -> str:
    """Line of shell that runs commands one after another, and stops at the first failure.

    Each command, given with its number of tasks, runs in a shell of its own, as in a job of its own: variables do not
    pass to the next command, which a retry may run alone.
    """
    return "\n".join(_script_lines(steps))


def _script_lines(steps: Iterable[tuple[Command, int]]) -> Iterator[str]:
    done = f'"${{{TASKS_DONE_VARIABLE}:-}}"'
    yield f'[ -z {done} ] || mkdir -p "${{{TASKS_DONE_VARIABLE}%/*}}" || exit'
    following = 1
    for command, many in steps:
        number, following = following, following + many
        noted = f"echo {number}={number}" if many == 1 else f"seq {number} {following - 1} | sed 's/.*/&=&/'"
        # Not behind && or ||, in which the shell would overlook the `set -e` of a command.
        yield (
            f"if ! grep -qsx {number}={number} {done}; then\n"
            f"(\n{shell_line(command)}\n)\n"
            '_status=$?; [ "$_status" -eq 0 ] || exit "$_status"\n'
            f"[ -z {done} ] || {noted} >>{done} || exit\n"
            "fi"
        )


def records_tasks(command: Command) -> bool:
    """Whether a job's command records its done tasks; one that runs them all at once does not."""
    return isinstance(command, str) and TASKS_DONE_VARIABLE in command


def task_record_path(job: int) -> PurePosixPath:
    """Path of a job's record of done tasks, relative to the run directory."""
    return PurePosixPath(_FOLDER, f"{job // _PER_FOLDER:02}", str(job))


def count_done_tasks(text: bytes) -> int:
    """Number of tasks in a record of done tasks."""
    # A line that was cut off by a full disk or a power cut says nothing.
    return len({match[1] for line in text.split(b"\n")[:-1] if (match := _LINE.fullmatch(line))})


# Writes a POSIX shell script that runs an attempt of a job by hand.


_ENV_PLACEHOLDER: Final = re.compile(r"<ENV:[A-Za-z_]\w*>", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TABLE: Final = "files"
"""Name of the table of a job's files in its temporary directory."""


class StageStep(msgspec.Struct, frozen=True, kw_only=True):
    """Program that stages the files of a job: its words, to which the path of the table and the command are added."""

    words: tuple[str, ...]
    table: str


class JobScript(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a script that runs a job by hand."""

    title: str
    """The job, in one line."""
    command: Command
    """The command with its setup and the paths of its files."""
    environment: Mapping[str, str]
    working_directory: str
    hidden: frozenset[str] = frozenset()
    """Names of variables whose values are secret: the caller of the script sets them."""
    secrets: tuple[str, ...] = ()
    """Secrets that the command may have: the caller of the script sets variables for them too."""
    umask: int | None = None
    """``None`` keeps the umask of the caller."""
    stage: StageStep | None = None
    """``None`` for a job that uses its files where these lie."""


def render_job_script(job: JobScript) -> str:
    """Text of the script.

    As in the job, standard input is empty and the temporary directory is private; output goes where the script's goes.
    A shell can read the script from a pipe: the command does not consume the rest of it.
    """
    # The job's own variables are known here; inherited ones are those of the caller.
    known = {name: value for name, value in job.environment.items() if name.startswith("LONGSHORE_JOB_")}
    references = _References(job)
    command = _env_words(job.command, references)
    lines = [
        f"#!{SHELL}",
        f"# {' '.join(job.title.split())}",
        "# Run by hand: the record of the run does not learn of it. Its other variables are those of your shell.",
    ]
    lines += [_require_variable(name) for name in sorted(job.hidden)]
    lines += [f': "${{{name}:?it stands for a secret of the command: set it first}}"' for name in references.added]
    if job.umask is not None:
        lines.append(f"umask {job.umask:04o}")
    lines += [
        f"CDPATH= cd -- {shlex.quote(job.working_directory)} || exit 126",
        "_tmp=$(mktemp -d) || exit 126",
        "trap 'rm -rf \"$_tmp\"' EXIT",
        "trap 'exit 130' INT",
        "trap 'exit 143' TERM",
        *(_table_lines(job.stage) if job.stage else ()),
        "env -- \\",
        *(
            f"    {_assignment(name, value, job.hidden, known)} \\"
            for name, value in job.environment.items()
            if name not in job.hidden or _VARIABLE.fullmatch(name)
        ),
        '    TMPDIR="$_tmp" \\',
        *([f'    {shlex.join(job.stage.words)} "$_tmp/{_TABLE}" \\'] if job.stage else []),
        f"    {command} </dev/null",
        "exit $?",
    ]
    return "\n".join(lines) + "\n"


def _table_lines(stage: StageStep) -> Iterator[str]:
    # No line of a table is this word: each has a tab, or is `t`.
    yield f"cat >\"$_tmp/{_TABLE}\" <<'FILES' || exit 126"
    yield from stage.table.removesuffix("\n").split("\n") if stage.table else ()
    yield "FILES"


def _require_variable(name: str) -> str:
    if _VARIABLE.fullmatch(name):
        return f': "${{{name}:?its value is a secret: set it first}}"'
    # No shell has a variable of such a name to take the value from.
    return f"# The variable {shlex.quote(name)} is left out: its value is a secret.".replace("\n", " ")


def _assignment(name: str, value: str, hidden: Iterable[str], known: Mapping[str, str]) -> str:
    if name in hidden:
        # It is the shell's already, and must be a variable of the command's too.
        return f'{name}="${{{name}}}"'
    return shell_assignment(name, value, known)


class _References:
    """Variables of the script in place of the secrets of a command."""

    def __init__(self, job: JobScript) -> None:
        self.added: list[str] = []
        """Names of those that are no variables of the job."""
        self._secrets = job.secrets
        self._names = {job.environment[name]: name for name in sorted(job.hidden) if _VARIABLE.fullmatch(name)}

    def quote(self, word: str) -> str:
        """Quote a word for the shell that reads the script, which puts the secrets in."""
        end, parts = 0, []
        for first, last in secret_spans(word, self._secrets):
            name = self._names.get(word[first:last])
            if name is None:
                name = self._names[word[first:last]] = f"SECRET_{len(self.added) + 1}"
                self.added.append(name)
            parts += [shlex.quote(word[end:first]) if end < first else "", f'"${{{name}}}"']
            end = last
        return "".join([*parts, shlex.quote(word[end:]) if end < len(word) or not parts else ""])


def _env_words(command: Command, references: _References) -> str:
    """Words for env: those of the command if no shell is needed, else a shell with the line."""
    words = command_argv(command)
    if not words:
        return "''"
    delayed = not isinstance(command, str) and any(map(_ENV_PLACEHOLDER.search, words))
    # A first word with '=' would be a variable to env.
    if not delayed and "=" not in words[0]:
        return " ".join(map(references.quote, words))
    return f"{SHELL} -c {references.quote(f'exec {shell_line(command)}')}"
