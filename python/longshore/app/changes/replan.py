"""Plans a run anew: its configuration and payload as they are now, with the run's own name, time and directory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Final

import msgspec
import yaml
from msgspec.structs import replace

from longshore.app.acquire.quantum_graph import has_other_command, read_kept_graph
from longshore.app.acquire.read_payload import AcquiredRun, takes_quantum_graph
from longshore.app.configure.layers import Overrides
from longshore.app.configure.resolved_run import ExistingRun, ResolvedRun, resolve_run
from longshore.app.progress import Progress, RecordingProgress
from longshore.app.runs.open_run import OpenRun
from longshore.app.submit.fingerprint import ConfigurationValues, read_recorded_values
from longshore.app.submit.stages import advance_run
from longshore.app.submit.submitcmd import plan_script
from longshore.app.submit.transform import RunPlan
from longshore.contract.service import RunPaths
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import DECODE_ERRORS, LongshoreError
from longshore.graphs.quantum_graph import RUN_GRAPH
from longshore.model.submission import Fingerprint
from longshore.rundir.run_directory import read_made_from
from longshore.rundir.submissions import submission_paths

_SCRIPT: Final = "bps_iscustom"
"""Attribute of runs of one script."""


class RecordedSources(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest submission of a run was made from.

    `paths` has the recorded files. `values` are those of the merged configuration.
    """

    paths: RunPaths
    fingerprint: Fingerprint
    values: ConfigurationValues

    @property
    def file(self) -> Path:
        """The user's file."""
        return Path(self.fingerprint.folder, self.fingerprint.file)


def read_sources(opened: OpenRun) -> RecordedSources | None:
    """Read what the newest submission was made from; ``None`` if that is not recorded, or no longer readable."""
    paths = submission_paths(opened.run)
    try:
        fingerprint = read_made_from(paths)
        if fingerprint is None:
            return None
        values = read_recorded_values(paths.merged_config(opened.card.name), paths.origins)
    except (LongshoreError, OSError, yaml.YAMLError, *DECODE_ERRORS):
        return None
    return RecordedSources(paths=paths, fingerprint=fingerprint, values=values)


def recorded_keys(opened: OpenRun) -> set[str]:
    """Return the top-level keys of the configuration that a run was made from; none where that is not recorded."""
    sources = read_sources(opened)
    return {key.partition(".")[0] for key in sources.values} if sources else set()


def replan(
    opened: OpenRun,
    sources: RecordedSources,
    progress: Progress,
    *,
    sets: Sequence[str] = (),
    graph_folder: Path | None = None,
) -> RunPlan:
    """Plan a run as if it were prepared now; `sets` are added to those of its first submission.

    A quantum graph is not made again, except with `graph_folder`, a folder of the run that is created for it. Raises
    `LongshoreError` if the run could not be prepared now.
    """
    made = sources.fingerprint
    existing = ExistingRun(
        name=opened.card.name,
        root=opened.run.root,
        service=opened.card.service,
        generated=[(key, value, origin) for key, (value, origin) in sources.values.items()],
    )
    with chdir(made.folder):
        run = resolve_run(
            Path(made.file),
            Overrides(made.options, (*made.sets, *sets)),
            now=opened.card.created_at,
            progress=progress,
            run_id=opened.card.id,
            existing=existing,
        )
        recording = RecordingProgress(progress)
        if is_script_run(opened):
            return plan_script(run, recording)
        record: ResolvedRun | AcquiredRun = run
        if takes_quantum_graph(run.configuration) and (name := _find_graph(opened.run)):
            if graph_folder is None:
                record = AcquiredRun(run=run, payload=read_kept_graph(run, name, progress))
            else:
                record = _make_graph(run, graph_folder, recording)
        return advance_run(record, RunPlan, recording)


def describe_stale_graph(opened: OpenRun, sources: RecordedSources, run: ResolvedRun, files: Sequence[str]) -> str:
    """Describe why the quantum graph of a run may not be what would be made now; empty if it is, or there is none.

    `files` are sentences about changed files of the payload.
    """
    if not takes_quantum_graph(run.configuration) or not (name := _find_graph(opened.run)):
        return ""
    made_in = Path(sources.fingerprint.root)
    why = (
        "'createQuantumGraph' has other words now"
        if has_other_command(run, opened.run.root / name, made_in=made_in)
        else next(iter(files), "")
    )
    return f"the quantum graph stays, although {why}: --with-changes --new-graph makes it again" if why else ""


def is_script_run(opened: OpenRun) -> bool:
    """Return whether a run has one job of a user's script (``longshore submitcmd``)."""
    return bool(opened.card.attributes.get(_SCRIPT))


def _make_graph(run: ResolvedRun, folder: Path, progress: RecordingProgress) -> AcquiredRun:
    """Make the quantum graph of a run in another folder of its directory."""
    made = advance_run(replace(run, paths=RunPaths(folder)), AcquiredRun, progress).payload
    below = folder.relative_to(run.paths.root).as_posix()
    files = {
        name: msgspec.structs.replace(file, path=f"{below}/{file.path}") if name == RUN_GRAPH else file
        for name, file in made.graph.files.items()
    }
    graph = msgspec.structs.replace(made.graph, files=files)
    return AcquiredRun(run=run, payload=replace(made, graph=graph))


def _find_graph(run: RunPaths) -> str | None:
    """Return the path of the run's quantum graph, relative to the run directory."""
    return next((file.path for file in JobTable(run).files() if file.name == RUN_GRAPH), None)
