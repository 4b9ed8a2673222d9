"""Turns ``provisionResources`` and ``provisioning`` into a node that starts machines for as long as the run lasts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from longshore.config.values.quantities import truth
from longshore.contract.context import Context
from longshore.errors import ConfigError
from longshore.services.htcondor.render import quoting
from longshore.services.htcondor.render.settings import getenv, run_value

NODE: Final = "provision"
SCRIPT: Final = "provisioningJob.bash"
CONFIG: Final = "provisioningConfig"
LOG: Final = "provisioningJob.log"
_DESCRIPTION: Final = "d_provision"


class Provisioning(msgspec.Struct, frozen=True, kw_only=True):
    """What starts machines.

    Attributes
    ----------
    script
        Text of the program.
    config
        Text of what that reads first; empty for nothing.
    config_path
        Where that belongs, unless there is something already.
    """

    script: str
    config: str = ""
    config_path: str = ""


def provisioning(ctx: Context) -> Provisioning | None:
    """What the run is to start; ``None`` for nothing.

    Raises
    ------
    ConfigError
        Something of it is missing.
    """
    if not truth(run_value(ctx, "provisionResources", otherwise=False), "provisionResources"):
        return None
    given: Any = run_value(ctx, "provisioning", {})
    if not isinstance(given, Mapping) or not given.get("provisioningScript"):
        raise ConfigError("'provisionResources' asks for machines, and 'provisioning.provisioningScript' starts none")
    if not (given.get("provisioningMaxWallTime") or run_value(ctx, "provisioningMaxWallTime")):
        raise ConfigError(
            "'provisionResources' asks for machines, and 'provisioningMaxWallTime' does not say for how long",
            hint='For example provisioningMaxWallTime: "2-00:00:00".',
        )
    return Provisioning(
        script=str(given["provisioningScript"]),
        config=str(given.get("provisioningScriptConfig") or ""),
        config_path=str(given.get("provisioningScriptConfigPath") or ""),
    )


def program(asked: Provisioning, ctx: Context) -> str:
    """The text of the program, which first puts what it reads in its place."""
    if not asked.config or not asked.config_path:
        return asked.script
    first, _, rest = asked.script.partition("\n")
    if not first.startswith("#!"):
        first, rest = "#!/bin/bash", asked.script
    place, source = shlex.quote(asked.config_path), shlex.quote(str(ctx.paths.wms / CONFIG))
    return f'{first}\n[ -e {place} ] || {{ mkdir -p "$(dirname {place})" && cp {source} {place}; }}\n{rest}'


def lines(ctx: Context) -> Iterator[str]:
    """The node, and its description: a job on the host of the schedd, next to DAGMan."""
    folder = ctx.paths.wms
    yield f"\nSUBMIT-DESCRIPTION {_DESCRIPTION} {{\n"
    yield "  universe = local\n"
    yield f"  executable = {folder / SCRIPT}\n"
    yield f"  initialdir = {folder}\n"
    yield f"  output = {folder / LOG}\n"
    yield f"  error = {folder / LOG}\n"
    yield f"  getenv = {getenv(ctx)}\n"
    yield f"  My.LongshoreRun = {quoting.in_attribute(ctx.mark)}\n"
    yield '  My.bps_job_label = "service_provisioningJob"\n'
    yield "}\n"
    yield f"SERVICE {NODE} {_DESCRIPTION}\n"
