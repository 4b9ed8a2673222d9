"""How a batch script says options to sbatch: its `#SBATCH` lines, and those of burst buffers, `#BB` and `#DW`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.services.batch.script import JobSpec, fit_line, text_lines
from longshore.services.slurm.options import SbatchOptions, omitted_options


def directives(job: JobSpec, components: Sequence[SbatchOptions]) -> Iterator[str]:
    """Return the options of a job and of each of its components, without ``#SBATCH``."""
    omitted = omitted_options(job.own)
    yield from (_option(name, value) for name, value in _of_all(job) if name not in omitted)
    first, *others = components
    yield from (_option(name, value) for name, value in first.pairs())
    if job.warning_s:
        # Slurm may send the signal up to a minute early (sbatch(1): --signal).
        yield f"--signal=B:USR1@{job.warning_s}"
    # After ours: the later of two lines counts. In a heterogeneous job they belong to the first component.
    yield from (fit_line("directives", line) for line in job.raw)
    for component in () if job.is_engine else others:
        yield "hetjob"
        yield from (_option(name, value) for name, value in component.pairs())


def _of_all(job: JobSpec) -> Iterator[tuple[str, str | None]]:
    yield "job-name", job.name
    if job.array:
        yield "array", f"0-{job.array - 1}"
    yield "comment", f"longshore {'engine ' if job.is_engine else ''}run={job.run_name}"
    yield "chdir", job.folder
    yield "output", output_pattern(job.output)
    yield "open-mode", "append"
    # Inherited variables are already selected: sbatch sees no others.
    yield "export", "ALL"
    yield "requeue" if job.is_engine or job.own.get("requeue") else "no-requeue", None


def output_pattern(path: str) -> str:
    """Escape a path as Slurm's pattern of file names (sbatch(1): filename pattern) that means just this path."""
    # With a backslash anywhere, Slurm replaces nothing, percent signs neither, and removes the backslash itself.
    return path.replace("\\", "\\\\") if "\\" in path else path.replace("%", "%%")


def _option(name: str, value: str | None) -> str:
    if value is None:
        return f"--{name}"
    value = fit_line(name, value)
    return (
        f"--{name}={value}" if re.fullmatch(r"[\w@%+=:,./&|*\[\]-]*", value, re.ASCII) else f"--{name}={_quoted(value)}"
    )


def _quoted(value: str) -> str:
    """Quote a value for sbatch's parser of ``#SBATCH`` lines: in double quotes, its quotes escaped."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


# Burst buffers.


BUFFER_KEYS: Final = ("BB", "DW")
"""Keys of the map ``slurm``, and words behind the hash sign in a script."""
_OPTION: Final = "#SBATCH"
_NEXT_COMPONENT: Final = "#SBATCH hetjob"


def buffer_lines(own: Mapping[str, YamlValue]) -> tuple[str, ...]:
    """Return the lines for burst buffers of a merged map ``slurm``; each value may have its ``#BB`` or ``#DW``.

    Raises `ConfigError` for a line of another kind, and for one that cannot be written into a script.
    """
    return tuple(_line(key, text) for key in BUFFER_KEYS for text in text_lines(own.get(key)))


def _line(key: str, text: str) -> str:
    word, _, rest = text.partition(" ")
    if word == f"#{key}":
        text = rest.strip()
    elif text.startswith(("#", "-")):
        other = word.removeprefix("#")
        place = f"slurm: {{{other}: [...]}}" if other in BUFFER_KEYS else "sbatch: [...] or directives: [...]"
        raise ConfigError(
            f"'{text}' under 'slurm.{key}' is no line of #{key}",
            hint=f"List it under '{place}', or write what follows '#{key}' in the script.",
        )
    if not text:
        raise ConfigError(f"'slurm.{key}' has an empty line", hint="Leave it out.")
    return f"#{key} {fit_line(f'slurm.{key}', text)}"


def refuse_buffer_lines(raw: Iterable[str]) -> None:
    """Raise `ConfigError` for a line of a burst buffer among raw options of sbatch, which would ignore it."""
    for line in raw:
        key = line.partition(" ")[0].removeprefix("#")
        if line.startswith("#") and key in BUFFER_KEYS:
            raise ConfigError(
                f"'{line}' is no option of sbatch",
                hint=f"Lines of #{key} go under 'slurm: {{{key}: [...]}}'.",
            )


def insert_buffer_lines(script: str, lines: Iterable[str]) -> str:
    """Return a script with these lines behind the options of its first component.

    Slurm reads them up to the first command, as it does its own lines, whatever the template has between.
    """
    new = list(lines)
    if not new:
        return script
    at = 0
    text = script.split("\n")
    for number, line in _head(text):
        if line == _NEXT_COMPONENT:
            break
        if number == 0 or line.startswith(_OPTION):
            at = number + 1
    return "\n".join([*text[:at], *new, *text[at:]])


def _head(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines before the first command."""
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            return
        yield number, line
