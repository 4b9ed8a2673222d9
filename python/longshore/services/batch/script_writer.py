"""Writer of the scripts of a run's batches, and of its engine's job: a dialect has the lines of options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from longshore.contract.executor import Batch, Urgency
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import WRAPPER, BatchFiles, refuses_requeued
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.batch.script import JobSpec, SiteDefaults, job_name, raw_options
from longshore.services.batch.settings import hopeless_after_s, max_wait_s, on_submit_error, own_map, wants_native
from longshore.sites.requests import PartitionRow, choose_partition


class ScriptWriter:
    """Writes the scripts of a run's batches.

    `run` is the run directory, `settings` are the executor's, `template` is the text of the template, and `facts`
    describe the cluster.
    """

    def __init__(
        self,
        dialect: Dialect,
        run: RunPaths,
        settings: Mapping[str, object],
        template: str,
        facts: ClusterFacts | None = None,
    ) -> None:
        self._dialect = dialect
        self._run = run
        self._settings = settings
        self._site = dialect.normalize(own_map(dialect.name, settings))
        self._template = template
        self._facts = facts
        # An engine takes the end of a first start, and removes its record. Without an engine, the record stays.
        runs_once = bool(dialect.restart_count) and refuses_requeued(run) and not wants_native(dialect.name, settings)
        words = (dialect.wrapper_options, f"-r {dialect.restart_count}" if runs_once else "")
        self._wrapper_options = " ".join(filter(None, words))

    def text(self, batch: Batch) -> str:
        """Render the script of a batch.

        Raises `ConfigError` when a setting is invalid, or cannot be written into a script.
        """
        return self._dialect.render(self._spec(batch), self._template)

    def options_of_template(self, batch: Batch) -> tuple[str, ...]:
        """Return the options in the script of a batch that its template has by itself; raises as `text`."""
        job, directive = self._spec(batch), self._dialect.directive
        known = {f"{directive} {line}" for line in self._dialect.directives(job)}
        lines = self._dialect.render(job, self._template).splitlines()
        return raw_options(directive, [line for line in lines if line.startswith(directive) and line not in known])

    def _spec(self, batch: Batch) -> JobSpec:
        """Return all that the script of a batch says."""
        asked, files = job_spec(self._dialect, batch, self._settings, self._facts), BatchFiles(self._run, batch.tag)
        return msgspec.structs.replace(
            asked,
            defaults=self._defaults(asked),
            name=self.name(batch.tag),
            run_name=self._run.root.name,
            array=len(batch.members) if len(batch.members) > 1 else 0,
            index=self._dialect.task_index,
            folder=str(self._run.root),
            output=str(files.output),
            wrapper=str(self._run.root / WRAPPER),
            table=str(files.table),
            ends=str(files.ends),
            scratch=str(self._settings.get("scratch") or ""),
            wrapper_options=self._wrapper_options,
        )

    def _defaults(self, asked: JobSpec) -> SiteDefaults:
        """Return the site's account and QOS, and its first partition that holds a job."""
        rows = cast("Sequence[PartitionRow]", self._settings.get("partitions") or ())
        row = choose_partition(rows, self._dialect.needs(asked)[0]) if rows else None
        plain = site_defaults(self._settings)
        if row is None:
            return plain
        return SiteDefaults(
            account=row.get("account") or plain.account,
            qos=row.get("qos") or plain.qos,
            queue=row["name"],
            exclusive=bool(row.get("exclusive")),
        )

    def name(self, tag: str) -> str:
        """Return the name of a batch's job, by which it is found again; contains the tag."""
        return name_job(self._dialect, tag, self._site)

    def max_batch(self, settings: Mapping[str, YamlValue], limit: int) -> int:
        """Return how many members a batch of jobs with these settings may have, at most `limit`.

        Raises `ConfigError` when a setting is invalid.
        """
        return limit if self._dialect.takes_array(self._merge(settings)) else 1

    def max_wait_s(self, batch: Batch) -> float | None:
        """Return the longest wait of members in the queue; ``None`` for no limit."""
        return max_wait_s(self._dialect.name, self._merge(batch.settings))

    def hopeless_after_s(self, batch: Batch) -> float | None:
        """Return how long members wait that can never start; ``None`` for no limit."""
        return hopeless_after_s(self._dialect.name, self._merge(batch.settings))

    def priority(self, urgency: Urgency) -> int | None:
        """Return the priority of a waiting batch for an urgency; ``None`` where it is not to be changed."""
        return self._dialect.priority(self._site, urgency, self._facts)

    @property
    def stops_run(self) -> bool:
        """Whether a refusal ends the run, and not only the refused jobs."""
        return on_submit_error(self._dialect.name, self._site) == "run"

    def _merge(self, own: Mapping[str, YamlValue]) -> dict[str, YamlValue]:
        return {**self._site, **self._dialect.normalize(own)}


def job_spec(
    dialect: Dialect, batch: Batch, settings: Mapping[str, object], facts: ClusterFacts | None = None
) -> JobSpec:
    """Return what a batch's jobs ask for, without names and files; `settings` are the executor's.

    Raises `ConfigError` when a setting is invalid.
    """
    own = {**dialect.normalize(own_map(dialect.name, settings)), **dialect.normalize(batch.settings)}
    # The jobs' own value already contains the site's.
    raw = raw_options(dialect.directive, own.get("directives", settings.get("directives")), own.get(dialect.raw_key))
    return JobSpec(batch=batch, own=own, raw=raw, facts=facts)


def engine_spec(dialect: Dialect, batch: Batch, settings: Mapping[str, object]) -> JobSpec:
    """Return what the job of the engine asks for, without names and files.

    `batch` has its request, and its settings in the service's words. Raises `ConfigError` when a setting is invalid.
    """
    site = dialect.normalize(own_map(dialect.name, settings))
    kept = {key: value for key, value in site.items() if key in dialect.engine_keys}
    return job_spec(dialect, batch, {dialect.name: kept, "directives": settings.get("directives")})


def engine_text(
    dialect: Dialect,
    run: RunPaths,
    settings: Mapping[str, object],
    template: str,
    batch: Batch,
    *,
    warning_s: int,
    **words: str,
) -> str:
    """Render the script of the job that runs the engine, or collects a run's outcome.

    `batch` has the name of the job as its tag, its request, and its settings in the service's words; `words` are
    further variables of the template. `warning_s` is how many seconds before its time limit the job wants USR1; 0 for
    no limit. Raises `ConfigError` when the settings are invalid, or the workload manager cannot run engines.
    """
    if not template:
        raise ConfigError(
            f"'{dialect.name}.engineAs: job' is not possible: {dialect.title} cannot run an engine as a job"
        )
    site = dialect.normalize(own_map(dialect.name, settings))
    asked = engine_spec(dialect, batch, settings)
    job = msgspec.structs.replace(
        asked,
        defaults=site_defaults(settings),
        name=name_job(dialect, batch.tag, site),
        run_name=run.root.name,
        folder=str(run.root),
        output=str(run.engine_log),
        is_engine=True,
        warning_s=warning_s,
    )
    return dialect.render(job, template, **words)


def name_job(dialect: Dialect, tag: str, site: Mapping[str, YamlValue]) -> str:
    """Return the name of a job in the queue: its tag, behind the site's ``repo_key``."""
    return job_name(tag, str(site.get("repo_key") or ""), dialect.plain_name)


def site_defaults(settings: Mapping[str, object]) -> SiteDefaults:
    """Return the site's account and QOS."""
    return SiteDefaults(account=str(settings.get("account") or ""), qos=str(settings.get("qos") or ""))
