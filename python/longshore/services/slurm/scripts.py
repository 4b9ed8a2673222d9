"""Turns a batch into the text that is handed over for it, out of the settings of its site; pure but for the books."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from longshore.config.settings import walltime
from longshore.contract.context import RunPaths
from longshore.contract.executor import Batch, Urgency
from longshore.model.request import Request
from longshore.services.slurm import render
from longshore.services.slurm.asked import components, partition_for, raw_lines
from longshore.services.slurm.books import Books
from longshore.services.slurm.nice import scale
from longshore.services.slurm.parse import ClusterFacts

TEMPLATE: Final = PurePosixPath("wms", "batch.sh.j2")
WRAPPER: Final = PurePosixPath("wms", "longshore-job")


class Scripts:
    """Writes the scripts of a run's batches.

    Parameters
    ----------
    run
        The run directory.
    books
        Where the files of a batch lie.
    settings
        The executor's settings.
    facts
        What is known of the cluster.
    """

    def __init__(self, run: RunPaths, books: Books, settings: Mapping[str, Any], facts: ClusterFacts | None) -> None:
        self._run = run
        self._books = books
        self._settings = settings
        self._slurm: Mapping[str, Any] = settings.get("slurm") or {}
        self._facts = facts
        self._template = (run.root / TEMPLATE).read_text("utf-8")

    def text(self, batch: Batch) -> str:
        """The script of a batch.

        Raises
        ------
        ConfigError
            What is asked for cannot be said in Slurm's words.
        """
        settings = {**self._slurm, **batch.settings}
        if batch.urgency is not None and (nice := self.nice(batch.urgency)) is not None:
            # What somebody wrote himself holds.
            settings.setdefault("nice", nice)
        parts = components(
            batch,
            settings,
            licences=self._facts.licences if self._facts else (),
            defaults=self._defaults(batch.request),
        )
        script = render.Script(
            name=self.name(batch.tag),
            components=parts,
            array=len(batch.members) if len(batch.members) > 1 else 0,
            raw=raw_lines(self._settings.get("directives"), settings.get("sbatch")),
            folder=str(self._run.root),
            output=str(self._books.output(batch.tag)),
            wrapper=str(self._run.root / WRAPPER),
            table=str(self._books.table(batch.tag)),
            ends=str(self._books.ends(batch.tag)),
            comment=f"longshore run={self._run.root.name}",
            export=render.export_of(self._settings.get("inherit"), self._settings.get("names") or ()),
            requeue=bool(settings.get("requeue")),
        )
        return render.rendered(script, self._template)

    def name(self, tag: str) -> str:
        """The name of a batch's job in Slurm."""
        return render.job_name(tag, str(self._slurm.get("repo_key") or ""))

    def nice(self, urgency: Urgency) -> int | None:
        """The nice value of jobs so urgent; ``None`` where the site does not say ``use_nice``."""
        if not self._slurm.get("use_nice"):
            return None
        found = scale(self._slurm, self._facts.priority_parameters if self._facts else "")
        return found.nice(urgency.end_at, urgency.pressure_s)

    @property
    def has_own_nice(self) -> bool:
        """Whether the site itself says how nice all jobs are."""
        return "nice" in self._slurm

    @property
    def stops_run(self) -> bool:
        """Whether a refusal ends the run, and not only the jobs that were refused."""
        return self._slurm.get("onSubmitError") == "run"

    def longest_wait_s(self, batch: Batch) -> float | None:
        """How long members of a batch may wait in the queue; ``None`` for as long as it takes."""
        value = {**self._slurm, **batch.settings}.get("maxpendtime")
        return None if value is None else walltime(value, "slurm.maxpendtime", None)

    def _defaults(self, request: Request) -> dict[str, Any]:
        """Account and QOS of the site, and the first partition of its table that can hold a job."""
        found = {name: self._settings[name] for name in ("account", "qos") if self._settings.get(name)}
        if row := partition_for(request, self._settings.get("partitions") or ()):
            found["partition"] = row["name"]
            found |= {name: row[name] for name in ("account", "qos") if row.get(name)}
        return found
