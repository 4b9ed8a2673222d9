"""Reads in which folders the user wants the logs of jobs."""

from __future__ import annotations

from longshore.app.configure.resolved_run import ResolvedRun
from longshore.app.plan.clustering import dimension_template
from longshore.app.progress import Teller
from longshore.config.values.merge import PACKAGED
from longshore.engine.run.service import EngineService
from longshore.errors import ConfigError
from longshore.model.tasks.cluster import ClusteredGraph
from longshore.plan.log_folders import attempt_log_path

KEY = "subDirTemplate"
_OWN = frozenset({"jobName", "jobLabel"})


def log_folders(run: ResolvedRun, clustered: ClusteredGraph, tell: Teller) -> str:
    """The template that somebody wrote; empty where nobody did, and logs lie where they usually do.

    Parameters
    ----------
    run
        The run.
    clustered
        What jobs are made of.
    tell
        Is told where the workload manager names logs in its own way.

    Raises
    ------
    ConfigError
        It is no text, or the values of some job do not suit it.
    """
    origin = run.configuration.origin(KEY)
    if origin is None or origin.layer in PACKAGED:
        return ""
    clusters = clustered.dag.nodes
    dimensions = frozenset(name for names in {tuple(cluster.tags) for cluster in clusters} for name in names)
    template = dimension_template(run.configuration, KEY, dimensions | _OWN)
    if template and not isinstance(run.service, EngineService):
        tell.note(f"'{KEY}' is of no effect: '{run.service.name}' says where logs lie")
        return ""
    try:
        for cluster in {(cluster.label, *cluster.tags): cluster for cluster in clusters}.values():
            attempt_log_path(template, 0, cluster.name, cluster.label, 1, tags=cluster.tags)
    except ConfigError as error:
        raise ConfigError(f"'{KEY}': {error.message}", origin=origin, hint=error.hint) from error
    return template
