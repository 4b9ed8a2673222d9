"""Submission of a run (`longshore submit`), from a configuration or from a directory that was prepared.

What plans a run is imported only once the engine of a run of this machine has been started on standby: both import for
as long. So this module imports nothing else of the room.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.interpolate import Scope
from longshore.config.layers import Layers, Overrides, read_layers
from longshore.config.search import Config
from longshore.config.service_lookup import default_service, find_service
from longshore.errors import (
    ConfigError,
    UsageError,
)
from longshore.model.submission import SubmissionChecks
from longshore.progress import Progress
from longshore.rundir.find_run import recorded_refusal, run_of_this_job
from longshore.rundir.registry import reserved_id
from longshore.system.detached import end_standby

if TYPE_CHECKING:
    from longshore.plan.submit_once import SubmittedRun


_SERVICE_KEY: Final = "wmsServiceClass"
_SITE_KEY: Final = "computeSite"


@recorded_refusal()
@hidden_secrets()
def submit(
    path: Path,
    overrides: Overrides | None = None,
    *,
    force: bool = False,
    checks: SubmissionChecks | None = None,
    progress: Progress,
) -> SubmittedRun:
    """Submit a run; `path` is a configuration file or a prepared run directory.

    With `force`, a prepared run is submitted even if its inputs changed. `checks` may refuse a configuration before
    anything is written; without any, only a workload manager that does not take it refuses it. A refusal is recorded
    for the directory that it happened in. Raises `UsageError` if `overrides` or strict `checks` are given for a
    prepared run, or `force` for a configuration, `LongshoreError` if the run cannot be prepared or is refused; nothing
    is left behind then.
    """
    # `os.path`, unlike `Path`, returns false for names that are too long and for unreadable directories.
    if os.path.isdir(path):  # noqa: PTH112
        if overrides:
            keys = [*overrides.options, *(pair.partition("=")[0] for pair in overrides.sets)]
            names = ", ".join(f"'{key}'" for key in keys)
            raise UsageError(
                f"'{path}' is prepared already, and {names} would have no effect",
                hint="Prepare the run again with these options, or leave them out.",
            )
        if checks and checks.strict:
            raise UsageError(
                f"'{path}' is prepared already, and '--strict' would have no effect",
                hint="Submit its configuration with '--strict'.",
            )

        from longshore.plan.submit_prepared import submit_prepared

        chosen = checks or SubmissionChecks()
        return submit_prepared(
            path,
            force=force,
            with_probe=chosen.with_probe,
            shares_outputs=chosen.shares_outputs,
            progress=progress,
        )
    if force:
        raise UsageError("'--force' is for a directory that was prepared", hint="Leave it out.")
    return _submit_configuration(path, overrides, checks or SubmissionChecks(), progress)


def _submit_configuration(
    path: Path, overrides: Overrides | None, checks: SubmissionChecks, progress: Progress
) -> SubmittedRun:
    try:
        with reserved_id() as (run_id, now):
            layers = read_layers(path, overrides, now=now)
            _begin_standby(layers)
            # Imported only now, since an engine on standby imports for as long.
            from longshore.plan.stages import plan_new_run, submit_plan

            plan, recording = plan_new_run(layers, run_id=run_id, now=now, checks=checks, progress=progress)
            if type(plan.run.service) is not type(find_service(default_service())):
                # A site or a function of the user chose another service.
                end_standby()
        # Nothing follows the submission, so that an interruption comes before it, in it, or after this function.
        return submit_plan(plan, recording)
    except BaseException:
        end_standby()
        raise


def _begin_standby(layers: Layers) -> None:
    """Start an engine on standby if the configuration names neither a service nor a site but those of this machine.

    This look at the configuration may err, for a site or a function of the user may choose. Then the standby is not
    used, or the engine starts without one.
    """
    config, scope, here = Config(layers.stack.root()), Scope(env=layers.env), default_service()
    try:
        named = {str(config.search(key, scope).value or here) for key in (_SERVICE_KEY, _SITE_KEY)}
    except ConfigError:
        # Reported where the configuration is resolved.
        return
    if named == {here}:
        from longshore.engine.outer_job import enter_outer_job
        from longshore.engine.run.processes import begin_engine_standby

        enter_outer_job(run_of_this_job())
        begin_engine_standby(here)
