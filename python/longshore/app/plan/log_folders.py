"""Log folders: the user's template for the folders of job logs."""

from __future__ import annotations

from longshore.app.configure.resolved_run import ResolvedRun
from longshore.app.plan.clustering import dimension_template
from longshore.app.progress import Progress
from longshore.config.merge import PACKAGED_LAYERS
from longshore.contract.executor import ExecutorOwner
from longshore.errors import ConfigError
from longshore.model.tasks import ClusteredGraph
from longshore.plan.job_commands import attempt_log_path

KEY = "subDirTemplate"
_OWN = frozenset({"jobName", "jobLabel"})


def log_folders(run: ResolvedRun, clustered: ClusteredGraph, progress: Progress) -> str:
    """Return the user's template for log folders; empty for the default folders.

    A note tells if the workload manager names logs itself. Raises `ConfigError` if the template is no text or does
    not suit the values of some job.
    """
    origin = run.configuration.origin(KEY)
    if origin is None or origin.layer in PACKAGED_LAYERS:
        return ""
    clusters = clustered.dag.nodes
    dimensions = frozenset(name for names in {tuple(cluster.tags) for cluster in clusters} for name in names)
    template = dimension_template(run.configuration, KEY, dimensions | _OWN)
    if template and not isinstance(run.service, ExecutorOwner):
        progress.note(f"'{KEY}' has no effect: the service '{run.service.name}' names logs itself")
        return ""
    try:
        for cluster in {(cluster.label, *cluster.tags): cluster for cluster in clusters}.values():
            attempt_log_path(template, 0, cluster.name, cluster.label, 1, tags=cluster.tags)
    except ConfigError as error:
        raise ConfigError(f"'{KEY}': {error.message}", origin=origin, hint=error.hint) from error
    return template
