"""Turns a batch into the text that is handed over for it, out of the settings of its site; pure but for the books."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from longshore.contract.context import RunPaths
from longshore.contract.executor import Batch
from longshore.model.request import Request
from longshore.services.slurm import render
from longshore.services.slurm.asked import components, partition_for, raw_lines
from longshore.services.slurm.books import Books
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

    def _defaults(self, request: Request) -> dict[str, Any]:
        """Account and QOS of the site, and the first partition of its table that can hold a job."""
        found = {name: self._settings[name] for name in ("account", "qos") if self._settings.get(name)}
        if row := partition_for(request, self._settings.get("partitions") or ()):
            found["partition"] = row["name"]
            found |= {name: row[name] for name in ("account", "qos") if row.get(name)}
        return found
