"""Template rendering of batch scripts, with ``#SBATCH`` lines and valid job names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import jinja2
import msgspec

from longshore.engine.job_wrapper import scratch_line
from longshore.errors import ConfigError
from longshore.services.slurm.render.sbatch_options import SbatchOptions

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._:-]+")
_LONGEST: Final = 120
DIRECTIVES: Final = "directives"
_UNFIT: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that end a line, or cannot be in one."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of the script's template.

    `name` is the job's name: the tag by which it is found again. `components` holds the options per component. `array`
    is the number of tasks; 0 for a single job. `raw` holds raw options as written. `folder` is the working directory.
    `output` is Slurm's own output; jobs have logs of their own. `wrapper`, `table` and `ends` are the program that runs
    a member, its table, and the folder of its end records. `comment` is shown by squeue. `requeue` allows Slurm to
    start the job again by itself. `runs_once` refuses each start but the first. `omit` names options that are left out.
    `scratch` is the parent of temporary directories, empty for that of the node.
    """

    name: str
    components: tuple[SbatchOptions, ...]
    array: int
    raw: tuple[str, ...]
    folder: str
    output: str
    wrapper: str
    table: str
    ends: str
    comment: str
    requeue: bool
    runs_once: bool = False
    omit: frozenset[str] = frozenset()
    scratch: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """Every ``#SBATCH`` line, without the ``#SBATCH`` prefix."""
        return tuple(_lines(self))

    @property
    def run(self) -> str:
        """The command that runs a member, independent of earlier lines of the script."""
        return f"{scratch_line(self.scratch)}exec /bin/sh {shlex.quote(self.wrapper)} {self._member}"

    @property
    def run_here(self) -> str:
        """The command that runs a member in the script's own shell, which is a fresh ``/bin/sh``."""
        return f"{scratch_line(self.scratch)}set -- {self._member} && . {shlex.quote(self.wrapper)}"

    @property
    def _member(self) -> str:
        line = '"$((SLURM_ARRAY_TASK_ID + 1))"' if self.array else "1"
        again = '-r "${SLURM_RESTART_COUNT:-0}" ' if self.runs_once else ""
        return f"{again}-m {line} -e {shlex.quote(self.ends)} {shlex.quote(self.table)}"


def _lines(script: Script) -> Iterator[str]:
    for name, value in _of_all(script):
        if name not in script.omit:
            yield _option(name, value)
    for number, component in enumerate(script.components):
        if number:
            yield "hetjob"
        yield from (_option(name, value) for name, value in component.pairs())
        if not number:
            # After ours: the later of two lines counts. In a heterogeneous job they belong to the first component.
            yield from (fit_line(DIRECTIVES, line) for line in script.raw)


def _of_all(script: Script) -> Iterator[tuple[str, str | None]]:
    yield "job-name", script.name
    if script.array:
        yield "array", f"0-{script.array - 1}"
    yield "comment", script.comment
    yield "chdir", script.folder
    yield "output", output_pattern(script.output)
    yield "open-mode", "append"
    # Inherited variables are already selected: sbatch sees no others.
    yield "export", "ALL"
    yield "requeue" if script.requeue else "no-requeue", None


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


def fit_line(name: str, value: str) -> str:
    """Return a value that fits in a line of a script; raises `ConfigError` for one that does not."""
    if found := _UNFIT.search(value):
        raise ConfigError(
            f"'{name}' cannot be {value!r}: a line of a batch script has no room for {found[0]!r}",
            hint="Give it another value, or, of a path, move the run to another directory.",
        )
    return value


def _quoted(value: str) -> str:
    """Quote a value for sbatch's parser of ``#SBATCH`` lines: in double quotes, its quotes escaped."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def rendered(script: Script, template: str, **more: str) -> str:
    """Render the script; `more` holds additional variables for the template."""
    # The result is a shell script, not a page: no HTML escaping.
    environment = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template).render(job=script, **more)


def job_name(tag: str, key: str = "") -> str:
    """Make a name that Slurm and its filters accept: letters, digits and a few signs, shortened with a hash."""
    plain = _ILLEGAL.sub("_", key + tag)
    if len(plain) <= _LONGEST:
        return plain
    digest = sha256(plain.encode()).hexdigest()[:10]
    return f"{plain[: _LONGEST - 11 - len(tag)]}-{digest}{_ILLEGAL.sub('_', tag)}"[:_LONGEST]
