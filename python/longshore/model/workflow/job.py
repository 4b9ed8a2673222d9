"""A job, the unit that a workload manager runs, and the settings that jobs of one profile share."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from longshore.model.tasks.task import Command, DataId, Scalar
from longshore.model.workflow.attempt_rules import JobRules
from longshore.model.workflow.request import Request

_LIMIT: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(?::\s*([1-9][0-9]*)\s*)?")
"""Name of a limit, and the amount taken where it is not 1."""


def parse_concurrency_limits(text: str) -> dict[str, int]:
    """Parse concurrency limits, such as ``db_limit, tape:2``, to an amount per name.

    Raises
    ------
    ValueError
        The text has another format.
    """
    amounts: dict[str, int] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        found = _LIMIT.fullmatch(part)
        if found is None:
            raise ValueError(part.strip())
        amounts[found[1]] = amounts.get(found[1], 0) + int(found[2] or 1)
    return amounts


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings that all jobs of one profile share.

    Attributes
    ----------
    request
        Request of the first attempt.
    defaulted
        Configuration keys of the request that only the package's defaults set: these may be lowered to what a site has.
    environment
        Variables beside those the job inherits.
    number_of_retries
        Attempts after the first.
    retry_unless_exit
        Exit codes after which a job is not retried.
    rules
        Other rules of retries, success and limits.
    working_directory
        Where the command starts; ``None`` is the run directory.
    setup
        Lines of shell that run in the job before its command.
    launcher
        Shell prefix of the command, after the set-up: a launcher (``srun``), and a container.
    limit_threads
        Whether libraries that start threads are limited to the job's processors.
    site, cloud
        Names of the sections that supplied values.
    attributes
        Every other job attribute of BPS that was given (``queue``, ``priority``, ``accountingGroup``, ...), for the
        service to use or to refuse.
    service_settings
        The service's own map, merged from all sections that apply to these jobs, the site's among them: it wins over
        what the service knows of the run's site, and a key with ``None`` removes that value. ``directives`` in it are
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
    service_settings: Mapping[str, Any] = msgspec.field(default_factory=dict, name="own")

    @property
    def priority(self) -> float:
        """Priority among the user's jobs, larger first; 0 where no number is given."""
        value = self.attributes.get("priority", 0)
        try:
            return 0.0 if isinstance(value, bool) else float(value)
        except ValueError:
            return 0.0

    @property
    def concurrency(self) -> Mapping[str, int]:
        """Amount per concurrency limit that each of its jobs takes, among all of the user's runs at a site."""
        text = self.attributes.get("concurrencyLimit")
        return {} if text is None else parse_concurrency_limits(str(text))

    @property
    def category(self) -> str:
        """Name of a category of jobs whose number of concurrent jobs is limited; empty for none."""
        return str(self.attributes.get("category", ""))


_SHARED_FIELDS: Final = tuple(name for name in JobSettings.__struct_fields__ if name != "request")


def shared_parts_key(settings: JobSettings) -> tuple[int, ...]:
    """Identities of all parts but the request, equal for settings that differ there only, as a profile makes them.

    It holds while the settings are alive. Equal parts may be different objects.
    """
    return tuple([id(getattr(settings, name)) for name in _SHARED_FIELDS])


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    """Number of its tasks per label, where it has several labels; ``None`` for a job without tasks."""
    success_files: tuple[str, ...] = ()
    """Paths for ``successIf.file`` where that names datasets, relative to the command's working directory."""

    @property
    def quanta_counts(self) -> dict[str, int]:
        """Number of its tasks per label (BPS: ``quanta_counts``)."""
        return dict(self.quanta or {}) if self.quanta != () else {self.label: self.tasks}
