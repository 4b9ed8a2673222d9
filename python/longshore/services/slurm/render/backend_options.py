"""Parser of ``--backend-options`` into configuration values."""

from __future__ import annotations

import shlex
from typing import Any, Final

from longshore.errors import ConfigError, OptionHelpRequest

_BACKEND: Final = {
    "-c": "cpu",
    "--cpus-per-task": "cpu",
    "--mem": "mem",
    "--tmp": "tmp",
    "-C": "features",
    "--constraint": "features",
    "-x": "excludes",
    "--exclude": "excludes",
    "--gres": "gres",
    "-L": "licence",
    "--licenses": "licence",
    "-w": "nodes",
    "--nodelist": "nodes",
    "-p": "partition",
    "--partition": "partition",
    "-q": "qos",
    "--qos": "qos",
    "--reservation": "reserv",
}
"""Options of ``--backend-options`` and the name of each in the service's own map (open-lmake, "Slurm backend")."""

BACKEND_HELP: Final = """\
Options of --backend-options for Slurm, as in srun; a lone ':' separates the components of a job:
  -c, --cpus-per-task=N  processors
      --mem=AMOUNT       memory
      --tmp=AMOUNT       temporary disk space
  -C, --constraint=LIST  features of nodes
  -x, --exclude=LIST     nodes to exclude
      --gres=LIST        generic resources
  -L, --licenses=LIST    licences
  -w, --nodelist=LIST    nodes to use
  -p, --partition=NAME   partition
  -q, --qos=NAME         quality of service
      --reservation=NAME reservation
  -h, --help             this text"""


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
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the options of the back end cannot be split into words: {text!r}: {error}") from error
    index = 0
    settings: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == ":":
            index += 1
            continue
        if word in {"-h", "--help"}:
            raise OptionHelpRequest(BACKEND_HELP)
        option, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        name = _BACKEND.get(option)
        if name is None:
            raise ConfigError(f"there is no option '{word}' of the back end", hint=BACKEND_HELP)
        if not equals:
            value = next(rest, "")
        if not value:
            raise ConfigError(f"the option '{option}' of the back end needs a value")
        if name == "licence" and index:
            raise ConfigError("licences belong to the whole job: give them before the first ':'")
        settings[f"{name}{index or ''}"] = value
    return settings
