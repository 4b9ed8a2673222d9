"""What a workload manager runs: a command with its request, its environment and its rules for trying again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from longshore.model.tasks.task import Command, DataId, Scalar
from longshore.model.workflow.attempt_rules import JobRules
from longshore.model.workflow.request import Request

_LIMIT: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(?::\s*([1-9][0-9]*)\s*)?")
"""A name, and how much of it is taken where that is not 1."""


def named_limits(text: str) -> dict[str, int]:
    """How much of each concurrency limit a job takes that names them as HTCondor has it: ``db_limit, tape:2``.

    Raises
    ------
    ValueError
        It does not read so.
    """
    taken: dict[str, int] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        found = _LIMIT.fullmatch(part)
        if found is None:
            raise ValueError(part.strip())
        taken[found[1]] = taken.get(found[1], 0) + int(found[2] or 1)
    return taken


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all jobs of one profile share.

    Attributes
    ----------
    request
        What a job asks for at its first attempt.
    defaulted
        Configuration keys of the request that only the package's defaults set: these may be lowered to what a site has.
    environment
        Variables beside those the job inherits.
    number_of_retries
        Attempts after the first; 0 is none.
    retry_unless_exit
        Exit codes after which a job is not tried again.
    rules
        When else it is tried again, what its success depends on, and what ends it early.
    working_directory
        Where the command starts; ``None`` is the run directory.
    setup
        Lines of shell that run in the job before its command.
    launcher
        A line of shell in front of the command, behind the set-up: what starts it (``srun``), and the container it is
        started in.
    limit_threads
        Whether libraries that make threads are told to make no more than the job has processors.
    site, cloud
        Names of the sections that supplied values.
    attributes
        Every other job attribute of BPS that was given (``queue``, ``priority``, ``accountingGroup``, ...), for the
        service to use or to refuse.
    own
        The service's own map of all sections that hold for these jobs, the site's among them: it wins over what the
        service knows of the run's site, and a key with ``None`` takes back what stands there. ``directives`` in it are
        raw lines for the workload manager.
    """

    label: str
    request: Request = msgspec.field(default_factory=Request)
    defaulted: tuple[str, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    number_of_retries: int = 0
    retry_unless_exit: tuple[int, ...] = ()
    rules: JobRules = JobRules()
    working_directory: str | None = None
    setup: tuple[str, ...] = ()
    launcher: str = ""
    limit_threads: bool = False
    site: str | None = None
    cloud: str | None = None
    attributes: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    own: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def priority(self) -> float:
        """Rank among the user's jobs, a larger number first; 0 where none is given that is a number."""
        value = self.attributes.get("priority", 0)
        try:
            return 0.0 if isinstance(value, bool) else float(value)
        except ValueError:
            return 0.0

    @property
    def concurrency(self) -> Mapping[str, int]:
        """How much each of its jobs takes of the limits it names, among all of the user's runs at a site."""
        text = self.attributes.get("concurrencyLimit")
        return {} if text is None else named_limits(str(text))

    @property
    def category(self) -> str:
        """The name of those jobs of the run of which there may be only so many at once; empty where there is none."""
        return str(self.attributes.get("category", ""))


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a workflow."""

    name: str
    label: str
    command: Command
    settings: JobSettings
    tags: DataId = msgspec.field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names of files of the workflow."""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Variables of this job alone; they win over those of `settings`."""
    tasks: int = 1
    """Number of tasks it runs."""
    quanta: tuple[tuple[str, int], ...] | None = ()
    """Number of its tasks per label, where there are several; ``None`` for a job that is no task's."""

    @property
    def quanta_counts(self) -> dict[str, int]:
        """Number of its tasks per label (BPS: ``quanta_counts``)."""
        return dict(self.quanta or {}) if self.quanta != () else {self.label: self.tasks}
