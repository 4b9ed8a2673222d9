"""Batch script for ``sbatch``, from a batch and the site's settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import msgspec

from longshore.batch.jobs import ClusterFacts
from longshore.batch.settings import hopeless_after_s, max_wait_s, on_submit_error, wants_native
from longshore.contract.batch import Batch, Urgency
from longshore.contract.context import RunPaths
from longshore.engine.job_wrapper import WRAPPER, BatchFiles, refuses_requeued
from longshore.model.values import YamlValue
from longshore.model.workflow.allocation import Allocation
from longshore.services.slurm.extensions.allocation import allocation
from longshore.services.slurm.extensions.burst_buffer import buffer_lines, insert_buffer_lines, refuse_buffer_lines
from longshore.services.slurm.extensions.nice import scale
from longshore.services.slurm.render import templates
from longshore.services.slurm.render.sbatch_options import (
    SbatchOptions,
    SlurmMap,
    component_count,
    components,
    normalize_names,
    omitted_options,
    raw_options,
    slurm_map,
)
from longshore.sites.partitions import PartitionRow, choose_partition

_SERVICE: Final = "slurm"


class ScriptWriter:
    """Writes the scripts of a run's batches.

    `run` is the run directory, `settings` are the executor's, `template` is the text of the template, and `facts`
    describe the cluster.
    """

    def __init__(
        self, run: RunPaths, settings: Mapping[str, object], template: str, facts: ClusterFacts | None
    ) -> None:
        self._run = run
        self._settings = settings
        self._slurm = slurm_map(settings)
        self._licences = facts.licences if facts else ()
        self._priorities = facts.priority_parameters if facts else ""
        self._template = template
        # An engine takes the end of a first start, and removes its record. Without an engine, the record stays.
        self._runs_once = refuses_requeued(run) and not wants_native(_SERVICE, settings)

    def text(self, batch: Batch) -> str:
        """Render the script of a batch; see `batch_script`."""
        own = batch.settings
        if batch.urgency is not None and "nice" not in merge_settings(self._settings, own):
            # A nice value in the settings takes precedence.
            nice = self.nice(batch.urgency)
            batch = batch if nice is None else msgspec.structs.replace(batch, settings={**own, "nice": nice})
        return batch_script(
            batch, self._settings, self._run, self._template, licences=self._licences, runs_once=self._runs_once
        )

    def name(self, tag: str) -> str:
        """Return the name of a batch's job in Slurm."""
        return batch_name(self._settings, tag)

    def max_wait_s(self, batch: Batch) -> float | None:
        """Return the longest wait of members in the queue; ``None`` for no limit."""
        return max_wait_s(_SERVICE, merge_settings(self._settings, batch.settings))

    def hopeless_after_s(self, batch: Batch) -> float | None:
        """Return how long members wait that can never start; ``None`` for no limit."""
        return hopeless_after_s(_SERVICE, merge_settings(self._settings, batch.settings))

    def nice(self, urgency: Urgency) -> int | None:
        """Return the nice value for an urgency; ``None`` where the site does not say ``use_nice``."""
        if not self._slurm.get("use_nice"):
            return None
        return scale(self._slurm, self._priorities).nice(urgency.end_at, urgency.pressure_s)

    def priority(self, urgency: Urgency) -> int | None:
        """Return the nice value of a waiting batch; ``None`` where the site sets one for all jobs, or none."""
        return None if "nice" in self._slurm else self.nice(urgency)

    def max_batch(self, settings: SlurmMap, limit: int) -> int:
        """Return how many members a batch may have: Slurm accepts no arrays of heterogeneous jobs."""
        return 1 if is_heterogeneous(self._settings, settings) else limit

    @property
    def stops_run(self) -> bool:
        """Whether a refusal ends the run, and not only the refused jobs."""
        return on_submit_error(_SERVICE, self._slurm) == "run"


def batch_script(
    batch: Batch,
    settings: Mapping[str, object],
    run: RunPaths,
    template: str,
    *,
    licences: Iterable[str] = (),
    runs_once: bool = False,
) -> str:
    """Render the script of a batch.

    The batch's own map overrides the site's; a key that is ``None`` there removes the site's value. `settings` are the
    executor's, `template` is the template's text, and `licences` are the cluster's names of licences. `runs_once` has
    the wrapper refuse each start but the first.

    Raises `ConfigError` when a setting is invalid, or cannot be written into a script.
    """
    own, files = merge_settings(settings, batch.settings), BatchFiles(run, batch.tag)
    # Defaults must not restore what jobs removed.
    removed = [name for name, value in own.items() if value is None]
    defaults = _default_options(settings, batch, licences).without(removed)
    parts = components(batch, own, licences=licences, defaults=defaults)
    raw = _raw_lines(settings, own)
    refuse_buffer_lines(raw)
    script = templates.Script(
        name=batch_name(settings, batch.tag),
        components=parts,
        array=len(batch.members) if len(batch.members) > 1 else 0,
        raw=raw,
        omit=omitted_options(own),
        folder=str(run.root),
        output=str(files.output),
        wrapper=str(run.root / WRAPPER),
        table=str(files.table),
        ends=str(files.ends),
        comment=f"longshore run={run.root.name}",
        requeue=bool(own.get("requeue")),
        runs_once=runs_once,
        scratch=str(settings.get("scratch") or ""),
    )
    return insert_buffer_lines(templates.rendered(script, template), buffer_lines(own))


def batch_name(settings: Mapping[str, object], tag: str) -> str:
    """Return the name of a batch's job in Slurm, by which it is found again."""
    return templates.job_name(tag, str(slurm_map(settings).get("repo_key") or ""))


def merge_settings(settings: Mapping[str, object], own: SlurmMap) -> dict[str, YamlValue]:
    """Merge the jobs' map over the site's, with every name in its first spelling."""
    return {**normalize_names(slurm_map(settings)), **normalize_names(own)}


def is_heterogeneous(settings: Mapping[str, object], own: SlurmMap) -> bool:
    """Whether jobs have several components; Slurm accepts no arrays of such jobs."""
    return component_count(merge_settings(settings, own)) > 1


def allocations(settings: Mapping[str, object], batch: Batch, licences: Iterable[str] = ()) -> tuple[Allocation, ...]:
    """Return what each component of a batch's jobs asks for, by the request, the own maps and raw lines."""
    own = merge_settings(settings, batch.settings)
    first, *others = components(batch, own, licences=licences)
    asked = allocation(first, batch.request, _raw_lines(settings, own))
    if own.get("diskGres") and asked.disk_b is None:
        asked = msgspec.structs.replace(asked, disk_b=batch.request.disk_b)
    return (
        asked,
        *(allocation(part, batch.request) for part in others),
    )


def _raw_lines(settings: Mapping[str, object], own: SlurmMap) -> tuple[str, ...]:
    # The jobs' own value already contains the site's.
    return raw_options(own.get("directives", settings.get("directives")), own.get("sbatch"))


def _default_options(settings: Mapping[str, object], batch: Batch, licences: Iterable[str]) -> SbatchOptions:
    """Return the site's account and QOS, and its first partition that holds a job."""
    account, qos = settings.get("account"), settings.get("qos")
    rows = cast("Sequence[PartitionRow]", settings.get("partitions") or ())
    row = choose_partition(rows, allocations(settings, batch, licences)[0]) if rows else None
    if row:
        account, qos = row.get("account") or account, row.get("qos") or qos
    return SbatchOptions(
        partition=row["name"] if row else None,
        account=str(account) if account else None,
        qos=str(qos) if qos else None,
        exclusive=True if row and row.get("exclusive") else None,
    )
