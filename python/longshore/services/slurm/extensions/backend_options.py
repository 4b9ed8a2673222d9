"""Options of ``--backend-options`` and the keys that they stand for (open-lmake, "Slurm backend")."""

from __future__ import annotations

from typing import Any, Final

from longshore.batch.backend_options import BackendOption, describe_options, parse_options
from longshore.errors import ConfigError

_OPTIONS: Final = (
    BackendOption("-c", "--cpus-per-task", "cpu", "N", "processors"),
    BackendOption("", "--mem", "mem", "AMOUNT", "memory"),
    BackendOption("", "--tmp", "tmp", "AMOUNT", "temporary disk space"),
    BackendOption("-C", "--constraint", "features", "LIST", "features of nodes"),
    BackendOption("-x", "--exclude", "excludes", "LIST", "nodes to exclude"),
    BackendOption("", "--gres", "gres", "LIST", "generic resources"),
    BackendOption("-L", "--licenses", "licence", "LIST", "licences"),
    BackendOption("-w", "--nodelist", "nodes", "LIST", "nodes to use"),
    BackendOption("-p", "--partition", "partition", "NAME", "partition"),
    BackendOption("-q", "--qos", "qos", "NAME", "quality of service"),
    BackendOption("", "--reservation", "reserv", "NAME", "reservation"),
)
BACKEND_HELP: Final = describe_options(
    "Options of --backend-options for Slurm, as in srun; a lone ':' separates the components of a job:", _OPTIONS
)
_REQUESTED: Final = {"cpu": "requestCpus", "mem": "requestMemory", "tmp": "requestDisk"}
"""Keys of a request per option: such a request grows when a job is retried."""


def backend_values(text: str) -> dict[str, Any]:
    """Parse a string of options into configuration values, with the service's own map under ``slurm``.

    Raises `ConfigError` for an unknown option or a missing value, and `OptionHelpRequest` where help is requested.
    """
    settings = backend_options(text)
    values: dict[str, Any] = {key: settings.pop(name) for name, key in _REQUESTED.items() if name in settings}
    return values | {"slurm": settings} if settings else values


def backend_options(text: str) -> dict[str, str]:
    """Parse a string of options into the service's own map.

    Raises `ConfigError` for an unknown option or a missing value, and `OptionHelpRequest` where help is requested.
    """
    first, *others = parse_options(text, _OPTIONS, BACKEND_HELP)
    if any("licence" in each for each in others):
        raise ConfigError("licences belong to the whole job: give them before the first ':'")
    numbered = {f"{name}{number}": value for number, each in enumerate(others, 1) for name, value in each.items()}
    return {**first, **numbered}
