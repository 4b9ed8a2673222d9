"""Job or array to submit: what a dialect renders, and the variable of a script's template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from longshore.batch.jobs import ClusterFacts
from longshore.contract.executor import Batch
from longshore.engine.job_wrapper import scratch_line
from longshore.model.values import YamlValue


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
