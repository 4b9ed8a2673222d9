"""Renders the notifier as a service node of the DAG: a job on the schedd's host, beside DAGMan."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from longshore.contract.service import Context
from longshore.engine.run.notifier_process import notifier_command
from longshore.services.htcondor.render import quoting
from longshore.services.htcondor.render.settings import getenv

NODE: Final = "notifier"
SCRIPT: Final = "notifier.sh"
DESCRIPTION: Final = "d_notifier"


def has_notices(ctx: Context) -> bool:
    """Return whether a run has rules of notices."""
    return bool(ctx.settings.get("notify"))


def unset_variables(ctx: Context) -> Iterator[str]:
    """Return the environment variables with addresses of webhooks: HTCondor would show their values to all users."""
    for rule in ctx.settings.get("notify", ()):
        if name := rule.get("webhook", {}).get("env"):
            yield str(name)


def script_text(ctx: Context) -> str:
    """Return the program of the node."""
    return (
        "#!/bin/sh\n"
        "# DAGMan removes this job when all others are over, and the notice of the end is sent after that.\n"
        "trap '' TERM\n"
        f"exec {shlex.join(notifier_command(ctx.paths))}\n"
    )


def service_node_lines(ctx: Context) -> Iterator[str]:
    """Return the service node and its submit description."""
    folder = ctx.rendered_paths.wms
    log = ctx.paths.notifier_log
    yield f"\nSUBMIT-DESCRIPTION {DESCRIPTION} {{\n"
    yield "  universe = scheduler\n"
    yield f"  executable = {folder / SCRIPT}\n"
    yield f"  initialdir = {folder}\n"
    yield f"  output = {log}\n"
    yield f"  error = {log}\n"
    yield f"  getenv = {getenv(ctx)}\n"
    yield f"  My.LongshoreRun = {quoting.quote_attribute(ctx.run_token)}\n"
    yield "}\n"
    yield f"SERVICE {NODE} {DESCRIPTION}\n"
