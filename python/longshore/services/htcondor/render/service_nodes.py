"""Service nodes of the DAG, jobs on the schedd's host beside DAGMan: one starts machines, and one sends notices."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from longshore.config.quantities import parse_bool
from longshore.contract.service import Context
from longshore.errors import ConfigError
from longshore.rundir.notices import notifier_command
from longshore.services.htcondor.render import quoting
from longshore.services.htcondor.render.settings import getenv, run_value

PROVISIONER: Final = "provision"
"""Node that starts machines, as ``provisionResources`` and ``provisioning`` want it."""
PROVISIONER_SCRIPT: Final = "provisioningJob.bash"
PROVISIONER_CONFIG: Final = "provisioningConfig"
PROVISIONER_LOG: Final = "provisioningJob.log"
NOTIFIER_SCRIPT: Final = "notifier.sh"
DESCRIPTIONS: Final = ("d_provision", "d_notifier")
"""Names of the submit descriptions of both nodes."""


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


def provisioner_text(provisioned: Provisioning, ctx: Context) -> str:
    """The text of the script, with a first line that installs its configuration."""
    if not provisioned.config or not provisioned.config_path:
        return provisioned.script
    first, _, rest = provisioned.script.partition("\n")
    if not first.startswith("#!"):
        first, rest = "#!/bin/bash", provisioned.script
    place, source = shlex.quote(provisioned.config_path), shlex.quote(str(ctx.rendered_paths.wms / PROVISIONER_CONFIG))
    return f'{first}\n[ -e {place} ] || {{ mkdir -p "$(dirname {place})" && cp {source} {place}; }}\n{rest}'


def has_notices(ctx: Context) -> bool:
    """Return whether a run has rules of notices."""
    return bool(ctx.settings.get("notify"))


def unset_variables(ctx: Context) -> Iterator[str]:
    """Return the environment variables with addresses of webhooks: HTCondor would show their values to all users."""
    for rule in ctx.settings.get("notify", ()):
        if name := rule.get("webhook", {}).get("env"):
            yield str(name)


def notifier_text(ctx: Context) -> str:
    """Return the program that sends notices."""
    return (
        "#!/bin/sh\n"
        "# DAGMan removes this job when all others are over, and the notice of the end is sent after that.\n"
        "trap '' TERM\n"
        f"exec {shlex.join(notifier_command(ctx.paths))}\n"
    )


def service_node_lines(ctx: Context) -> Iterator[str]:
    """Return the service nodes of a run and their submit descriptions."""
    provisioner, notifier = DESCRIPTIONS
    if provisioning(ctx) is not None:
        log = ctx.rendered_paths.wms / PROVISIONER_LOG
        yield from _description_lines(ctx, provisioner, universe="local", script=PROVISIONER_SCRIPT, log=log)
        yield '  My.bps_job_label = "service_provisioningJob"\n'
        yield f"}}\nSERVICE {PROVISIONER} {provisioner}\n"
    if has_notices(ctx):
        log = ctx.paths.notifier_log
        yield from _description_lines(ctx, notifier, universe="scheduler", script=NOTIFIER_SCRIPT, log=log)
        yield f"}}\nSERVICE notifier {notifier}\n"


def _description_lines(ctx: Context, name: str, *, universe: str, script: str, log: Path) -> Iterator[str]:
    """Return a submit description without its end."""
    folder = ctx.rendered_paths.wms
    yield f"\nSUBMIT-DESCRIPTION {name} {{\n"
    yield f"  universe = {universe}\n"
    yield f"  executable = {folder / script}\n"
    yield f"  initialdir = {folder}\n"
    yield f"  output = {log}\n"
    yield f"  error = {log}\n"
    yield f"  getenv = {getenv(ctx)}\n"
    yield f"  My.LongshoreRun = {quoting.quote_attribute(ctx.run_token)}\n"
