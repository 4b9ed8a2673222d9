"""What a batch script says of a job: the variable of its template, and what fits in a line of options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Final

import jinja2
import msgspec

from longshore.contract.executor import Batch
from longshore.engine.job_wrapper import scratch_line
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.services.batch.jobs import ClusterFacts


class SiteDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs get from their site where they say nothing themselves; empty for nothing.

    `queue` is the first row of the site's ``partitions`` that holds the jobs.
    """

    account: str = ""
    qos: str = ""
    queue: str = ""
    exclusive: bool = False


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A job or an array to submit, and the variable ``job`` of its script's template.

    Attributes
    ----------
    batch
        The request, the attributes and the urgency of the jobs.
    own
        The service's own map: that of the site with that of the jobs over it. ``None`` cancels a value of the site.
    raw
        Raw options as written, without the word that begins a line of options.
    facts
        Facts of the cluster; ``None`` if they are unknown.
    defaults
        What the site gives.
    name, run_name
        Name of the job in the queue, by which it is found again; name of the run.
    array
        Number of tasks; 0 for a single job.
    index
        Shell for the number of a task from 1.
    folder, output
        The working directory, and the workload manager's own output; members of a batch have logs of their own.
    wrapper, table, ends
        The program that runs a member, its table, and the folder of its end records; empty for the engine.
    scratch
        Parent of temporary directories; empty for that of the node.
    wrapper_options
        Options of the wrapper that the workload manager needs.
    is_engine, warning_s
        Whether the job runs the engine of a run, or collects its outcome; such a job may be started again. Seconds
        before its time limit at which it wants USR1; 0 without a limit.
    lines
        The lines of options, without the word that begins each.
    """

    batch: Batch
    own: Mapping[str, YamlValue]
    raw: tuple[str, ...] = ()
    facts: ClusterFacts | None = None
    defaults: SiteDefaults = SiteDefaults()
    name: str = ""
    run_name: str = ""
    array: int = 0
    index: str = "1"
    folder: str = ""
    output: str = ""
    wrapper: str = ""
    table: str = ""
    ends: str = ""
    scratch: str = ""
    wrapper_options: str = ""
    is_engine: bool = False
    warning_s: int = 0
    lines: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """Name of the batch in the run."""
        return self.batch.tag

    @property
    def run(self) -> str:
        """The command that runs a member, independent of earlier lines of the script."""
        return f"{scratch_line(self.scratch)}exec /bin/sh {shlex.quote(self.wrapper)} {self._member}"

    @property
    def run_here(self) -> str:
        """The command that runs a member in the script's own shell, which is a fresh ``/bin/sh``."""
        return f"{scratch_line(self.scratch)}set -- {self._member} && . {shlex.quote(self.wrapper)}"

    @property
    def begin(self) -> str:
        """Lines that open the output and enter the folder, for options that cannot have every path."""
        return f"{self.begin_output}\ncd -- {shlex.quote(self.folder)} || exit 100"

    @property
    def begin_output(self) -> str:
        """Line that opens the output."""
        return f"exec >>{shlex.quote(self.output)} 2>&1"

    @property
    def _member(self) -> str:
        line = self.index if self.array else "1"
        more = f"{self.wrapper_options} " if self.wrapper_options else ""
        return f"{more}-m {line} -e {shlex.quote(self.ends)} {shlex.quote(self.table)}"


_UNFIT: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that end a line, or cannot be in one."""
_LONGEST_NAME: Final = 120
_DIGEST_SIGNS: Final = 10


def fit_line(name: str, value: str, *, reserved: str = "") -> str:
    """Return a value that fits in a line of a script.

    Raises `ConfigError` for one that does not, or that has a `reserved` sign.
    """
    found = _UNFIT.search(value)
    sign = found[0] if found else next((sign for sign in value if sign in reserved), "")
    if sign:
        raise ConfigError(
            f"'{name}' cannot be {value!r}: a line of a batch script has no room for {sign!r}",
            hint="Give it another value, or, of a path, move the run to another directory.",
        )
    return value


def to_list(value: object) -> list[str]:
    """Return a value, or the items of a list, as texts; none of null and of empty text."""
    if value is None or value == "":
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


def text_lines(source: object) -> list[str]:
    """Return the lines of a text or of a list of texts."""
    return [line.strip() for text in to_list(source) for line in text.splitlines()]


def raw_options(directive: str, *sources: object) -> tuple[str, ...]:
    """Collect raw options from several sources, as written: with or without `directive` in front."""
    lines = (line for source in sources for line in text_lines(source))
    return tuple(plain for line in lines if (plain := line.removeprefix(directive).strip()))


def raw_lines(own: Mapping[str, YamlValue], *keys: str) -> Iterator[tuple[str, str]]:
    """Yield the raw lines under keys of an own map, each behind the path of the item that has it."""
    for key in keys:
        value = own.get(key)
        items = value if isinstance(value, list | tuple) else to_list(value)
        for number, item in enumerate(items):
            path = f"{key}.{number}" if isinstance(value, list | tuple) else key
            yield from ((path, line) for line in text_lines(item))


def job_name(tag: str, prefix: str, to_plain: Callable[[str], str]) -> str:
    """Make the name of a job, which ends in its tag; a long one is shortened with a hash.

    `to_plain` replaces the signs that the workload manager does not accept.
    """
    plain = to_plain(prefix + tag)
    if len(plain) <= _LONGEST_NAME:
        return plain
    digest = sha256(plain.encode()).hexdigest()[:_DIGEST_SIGNS]
    return f"{plain[: _LONGEST_NAME - _DIGEST_SIGNS - 1 - len(tag)]}-{digest}{tag}"[:_LONGEST_NAME]


def fill_template(template: str, job: JobSpec, **more: str) -> str:
    """Render a script; `more` holds additional variables for the template."""
    # The result is a shell script, not a page: no HTML escaping.
    environment = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template).render(job=job, **more)
