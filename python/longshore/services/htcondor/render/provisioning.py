"""Renders ``provisionResources`` and ``provisioning`` as a service node that starts machines during the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from longshore.config.quantities import parse_bool
from longshore.contract.service import Context
from longshore.errors import ConfigError
from longshore.services.htcondor.render import quoting
from longshore.services.htcondor.render.settings import getenv, run_value

NODE: Final = "provision"
SCRIPT: Final = "provisioningJob.bash"
CONFIG: Final = "provisioningConfig"
LOG: Final = "provisioningJob.log"
_DESCRIPTION: Final = "d_provision"


class Provisioning(msgspec.Struct, frozen=True, kw_only=True):
    """The provisioning script and its configuration file."""

    script: str
    """Text of the script."""
    config: str = ""
    """Text of the script's configuration; empty for none."""
    config_path: str = ""
    """Path to install the configuration at, unless it exists."""


def provisioning(ctx: Context) -> Provisioning | None:
    """The provisioning of a run; ``None`` if it is not enabled.

    Raises `ConfigError` if the script or its maximum walltime is missing.
    """
    if not parse_bool(run_value(ctx, "provisionResources", default=False), "provisionResources"):
        return None
    config_map = run_value(ctx, "provisioning", {})
    if not isinstance(config_map, Mapping) or not config_map.get("provisioningScript"):
        raise ConfigError(
            "'provisionResources' is true, but there is no 'provisioning.provisioningScript' to start machines"
        )
    if not (config_map.get("provisioningMaxWallTime") or run_value(ctx, "provisioningMaxWallTime")):
        raise ConfigError(
            "'provisionResources' is true, but 'provisioningMaxWallTime' is not set",
            hint='For example provisioningMaxWallTime: "2-00:00:00".',
        )
    return Provisioning(
        script=str(config_map["provisioningScript"]),
        config=str(config_map.get("provisioningScriptConfig") or ""),
        config_path=str(config_map.get("provisioningScriptConfigPath") or ""),
    )


def script_text(provisioned: Provisioning, ctx: Context) -> str:
    """The text of the script, with a first line that installs its configuration."""
    if not provisioned.config or not provisioned.config_path:
        return provisioned.script
    first, _, rest = provisioned.script.partition("\n")
    if not first.startswith("#!"):
        first, rest = "#!/bin/bash", provisioned.script
    place, source = shlex.quote(provisioned.config_path), shlex.quote(str(ctx.rendered_paths.wms / CONFIG))
    return f'{first}\n[ -e {place} ] || {{ mkdir -p "$(dirname {place})" && cp {source} {place}; }}\n{rest}'


def service_node_lines(ctx: Context) -> Iterator[str]:
    """The service node and its submit description: a job on the schedd's host, beside DAGMan."""
    folder = ctx.rendered_paths.wms
    yield f"\nSUBMIT-DESCRIPTION {_DESCRIPTION} {{\n"
    yield "  universe = local\n"
    yield f"  executable = {folder / SCRIPT}\n"
    yield f"  initialdir = {folder}\n"
    yield f"  output = {folder / LOG}\n"
    yield f"  error = {folder / LOG}\n"
    yield f"  getenv = {getenv(ctx)}\n"
    yield f"  My.LongshoreRun = {quoting.quote_attribute(ctx.run_token)}\n"
    yield '  My.bps_job_label = "service_provisioningJob"\n'
    yield "}\n"
    yield f"SERVICE {NODE} {_DESCRIPTION}\n"
