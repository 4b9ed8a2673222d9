"""Turns a batch, and what a site says of its cluster, into the script that ``sbatch`` is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from longshore.config.values.quantities import walltime
from longshore.contract.batch import Batch, Urgency
from longshore.contract.context import RunPaths
from longshore.engine.job_wrapper import WRAPPER, BatchFiles
from longshore.errors import ConfigError
from longshore.model.workflow.request import Request
from longshore.services.slurm.commands.parse import ClusterFacts
from longshore.services.slurm.render import templates
from longshore.services.slurm.render.nice import scale
from longshore.services.slurm.render.sbatch_options import (
    component_count,
    components,
    left_out,
    partition_for,
    raw_lines,
    spelled,
)

TEMPLATE: Final = PurePosixPath("wms", "batch.sh.j2")


class Scripts:
    """Writes the scripts of a run's batches.

    Parameters
    ----------
    run
        The run directory, which holds the template.
    settings
        The executor's settings.
    facts
        What is known of the cluster.
    """

    def __init__(self, run: RunPaths, settings: Mapping[str, Any], facts: ClusterFacts | None) -> None:
        self._run = run
        self._settings = settings
        self._slurm: Mapping[str, Any] = settings.get("slurm") or {}
        self._licences = facts.licences if facts else ()
        self._priorities = facts.priority_parameters if facts else ""
        self._template = (run.root / TEMPLATE).read_text("utf-8")

    def text(self, batch: Batch) -> str:
        """The script of a batch; see `batch_script`."""
        own = batch.settings
        if batch.urgency is not None and "nice" not in combined(self._settings, own):
            # What somebody wrote himself holds.
            nice = self.nice(batch.urgency)
            batch = batch if nice is None else msgspec.structs.replace(batch, settings={**own, "nice": nice})
        return batch_script(batch, self._settings, self._run, self._template, licences=self._licences)

    def name(self, tag: str) -> str:
        """The name of a batch's job in Slurm."""
        return batch_name(self._settings, tag)

    def longest_wait_s(self, batch: Batch) -> float | None:
        """How long members of a batch may wait in the queue; ``None`` for as long as it takes."""
        return longest_wait_s(combined(self._settings, batch.settings))

    def nice(self, urgency: Urgency) -> int | None:
        """The nice value of jobs so urgent; ``None`` where the site does not say ``use_nice``."""
        if not self._slurm.get("use_nice"):
            return None
        return scale(self._slurm, self._priorities).nice(urgency.end_at, urgency.pressure_s)

    @property
    def has_own_nice(self) -> bool:
        """Whether the site itself says how nice all jobs are."""
        return "nice" in self._slurm

    @property
    def stops_run(self) -> bool:
        """Whether a refusal ends the run, and not only the jobs that were refused."""
        return on_submit_error(self._slurm) == "run"


def batch_script(
    batch: Batch,
    settings: Mapping[str, Any],
    run: RunPaths,
    template: str,
    *,
    licences: Iterable[str] = (),
) -> str:
    """The script of a batch.

    Parameters
    ----------
    batch
        The batch; its own map wins over the site's, and a key that is ``None`` there takes the site's back.
    settings
        Settings of the executor.
    run
        The run directory.
    template
        Text of the template.
    licences
        Names that the cluster knows as licences.

    Raises
    ------
    ConfigError
        Something that is asked for cannot be understood, or cannot be written into a script.
    """
    own, files = combined(settings, batch.settings), BatchFiles(run, batch.tag)
    defaults = _defaults(settings, batch.request, own.get("features"))
    # What jobs take back is not put in its place again.
    defaults = {name: value for name, value in defaults.items() if own.get(name, "") is not None}
    parts = components(batch, own, licences=licences, defaults=defaults)
    script = templates.Script(
        name=batch_name(settings, batch.tag),
        components=parts,
        array=len(batch.members) if len(batch.members) > 1 else 0,
        # What jobs say has what the site says in it.
        raw=raw_lines(own.get("directives", settings.get("directives")), own.get("sbatch")),
        omit=left_out(own),
        folder=str(run.root),
        output=str(files.output),
        wrapper=str(run.root / WRAPPER),
        table=str(files.table),
        ends=str(files.ends),
        comment=f"longshore run={run.root.name}",
        requeue=bool(own.get("requeue")),
    )
    return templates.rendered(script, template)


def batch_name(settings: Mapping[str, Any], tag: str) -> str:
    """Name of a batch's job in Slurm, by which it is found again."""
    return templates.job_name(tag, str((settings.get("slurm") or {}).get("repo_key") or ""))


def combined(settings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The map of the site with that of some jobs over it, both in the first spelling of every name."""
    return {**spelled(settings.get("slurm") or {}), **spelled(own)}


def longest_wait_s(own: Mapping[str, Any]) -> float | None:
    """How long jobs may wait in the queue, by the maps of site and job together; ``None`` for as long as it takes.

    Raises
    ------
    ConfigError
        It is no time.
    """
    value = own.get("maxpendtime")
    return None if value is None else walltime(value, "slurm.maxpendtime")


def on_submit_error(slurm: Mapping[str, Any]) -> str:
    """What a refusal ends: the ``job``, or the ``run``."""
    return choice(slurm, "onSubmitError", "job", "run")


def choice(slurm: Mapping[str, Any], name: str, usual: str, other: str) -> str:
    """Which of two words a key of the map ``slurm:`` has.

    Parameters
    ----------
    slurm
        The map.
    name
        The key.
    usual
        What holds where the key is not there.
    other
        What it can say instead.

    Raises
    ------
    ConfigError
        It says something else.
    """
    said = slurm.get(name) or usual
    if said not in (usual, other):
        raise ConfigError(f"'slurm.{name}' must be '{usual}' or '{other}', not '{said}'")
    return str(said)


def is_heterogeneous(settings: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether jobs have several components; Slurm takes no arrays of such."""
    return component_count(combined(settings, own)) > 1


def _defaults(settings: Mapping[str, Any], request: Request, features: Any) -> dict[str, Any]:
    """Account and QOS of the site, and the first partition of its table that can hold a job."""
    found = {name: settings[name] for name in ("account", "qos") if settings.get(name)}
    if row := partition_for(request, settings.get("partitions") or (), features):
        found["partition"] = row["name"]
        found |= {name: row[name] for name in ("account", "qos") if row.get(name)}
        if row.get("exclusive"):
            found["exclusive"] = None
    return found
