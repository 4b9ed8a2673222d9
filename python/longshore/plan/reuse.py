"""Submits a run that takes over the results of an earlier one, where they are up to date."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext, suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.layers import Overrides, read_layers
from longshore.contract.capabilities import Amendable
from longshore.errors import SubmissionRefusedError
from longshore.graphs.graph_file import note_kept_graph
from longshore.model.event import FileStamp
from longshore.model.submission import ReusedJobs, SubmissionChecks
from longshore.model.workflow import OutputCheck
from longshore.plan.match_run import (
    WorkflowMatch,
    earlier_values,
    locate_output,
    look_at_file,
    match_run,
    planned_values,
    prepared_root,
)
from longshore.plan.resolved_run import ResolvedRun
from longshore.plan.run_plan import RunPlan
from longshore.plan.site_choice import release_site, releasing_site
from longshore.plan.stages import plan_new_run, submit_plan
from longshore.plan.submit_once import SubmittedRun
from longshore.progress import Progress
from longshore.rundir.find_run import recorded_refusal
from longshore.rundir.job_table import JobTable
from longshore.rundir.registry import remove_entry, reserved_id
from longshore.runstate.open_run import OpenRun, open_run


class ReusePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a new run, and which of them keep the results of an earlier one.

    `names` are those of the jobs, `gone` those that only the earlier run has. `submitted` is the new run, if it was
    submitted.
    """

    earlier: OpenRun
    names: tuple[str, ...]
    gone: tuple[str, ...]
    match: WorkflowMatch
    submitted: SubmittedRun | None = None


def submit_reusing(
    path: Path,
    overrides: Overrides | None,
    reference: str,
    *,
    by_content: bool = False,
    dry_run: bool = False,
    checks: SubmissionChecks | None = None,
    progress: Progress,
) -> ReusePlan:
    """Submit a configuration as a new run that takes over the results of another.

    `by_content` compares input files by their content, and records it. With `dry_run` nothing is written.
    `checks` may refuse the run. Raises `SubmissionRefusedError` if the service cannot begin a run with results, other
    errors as `submit`, which also records refusals.
    """
    with nullcontext() if dry_run else recorded_refusal(), hidden_secrets():
        earlier = open_run(reference)
        with reserved_id() as (run_id, now):
            plan, recording = plan_new_run(
                read_layers(path, overrides, now=now),
                run_id=run_id,
                now=now,
                checks=checks or SubmissionChecks(),
                progress=progress,
                check=lambda run: _refuse_service(run, earlier),
            )
            with releasing_site(plan.run):
                plan = replace(plan, hashes_inputs=by_content)
                links = _OutputLinks(earlier, plan)
                match = match_run(earlier, plan, lost_outputs=links.why_lost, by_content=by_content)
                result = ReusePlan(
                    earlier=earlier,
                    names=tuple(job.name for job in plan.workflow),
                    gone=tuple(links.jobs.names[job] for job in match.gone),
                    match=match,
                )
                if not dry_run:
                    plan = links.add_to(plan, match)
        if dry_run:
            remove_entry(run_id)
            release_site(plan.run)
            if plan.kept_files:
                note_kept_graph(plan.run.paths.root / plan.kept_files[0], progress)
            return result
        return replace(result, submitted=submit_plan(plan, recording))


def _refuse_service(run: ResolvedRun, earlier: OpenRun) -> None:
    """Refuse a service that cannot begin a run with results."""
    why = "it submits all jobs of a run to its workload manager"
    if isinstance(run.service, Amendable):
        why = run.service.why_not_reused(run.context)
    if why:
        raise SubmissionRefusedError(
            f"the service '{run.configuration.service}' cannot take over results of another run: {why}",
            hint="Submit without --reuse, or restart the earlier run with its changes: "
            f"longshore restart {earlier.reference} --with-changes",
        )


class _OutputLinks:
    """Outputs inside the directory of the earlier run, which the new run gets as links."""

    def __init__(self, earlier: OpenRun, plan: RunPlan) -> None:
        self.jobs = JobTable(earlier.run, "names")
        self._earlier = earlier
        self._target = plan.run.paths.root
        root, was, values = earlier.run.root, prepared_root(earlier.run), earlier_values(earlier)
        self._sources = {
            values.name_values(file.path): locate_output(root, was, file.path) for file in self.jobs.files()
        }
        """Path in the earlier run per path without the values of a run."""
        self._stamps: dict[str, FileStamp] = {}
        """Stamp of each output, taken before it is compared with its record."""

    def why_lost(self, path: str) -> str:
        """Return why the file of an output cannot be used; empty if it can."""
        with suppress(OSError):
            self._stamps[path], _ = look_at_file(path)
        try:
            status = Path(path).lstat()
            if not Path(path).is_relative_to(self._earlier.run.root):
                return "" if Path(path).exists() else f"its output '{path}' is not there any more"
        except OSError as error:
            return f"its output '{path}' cannot be used: {error.strerror}"
        if not stat.S_ISREG(status.st_mode):
            return f"its output '{path}' lies inside the earlier run, and is no regular file that could be linked"
        if status.st_dev != _existing_folder(self._target).stat().st_dev:
            return f"its output '{path}' lies inside the earlier run, on another file system than the new run"
        # The system protects files of others from hard links, see proc(5): protected_hardlinks.
        if os.geteuid() not in {0, status.st_uid} and not os.access(path, os.R_OK | os.W_OK):
            return f"its output '{path}' lies inside the earlier run, belongs to another user, and cannot be linked"
        return ""

    def add_to(self, plan: RunPlan, match: WorkflowMatch) -> RunPlan:
        """Return the plan with the results that are kept, and links to their outputs."""
        files, values = plan.workflow.files, planned_values(plan)
        links: dict[str, Path] = {}
        stamps: dict[int, tuple[FileStamp, ...]] = {}
        for number, (job, each) in enumerate(zip(plan.workflow, match.jobs, strict=True)):
            if not each.is_kept:
                continue
            # Both jobs have the same outputs, perhaps in another order.
            sources = {name: self._sources[values.name_values(files[name].path)] for name in job.outputs}
            if job.settings.rules.check_outputs is not OutputCheck.NONE:
                stamps[number] = tuple(self._stamps[source] for source in sources.values() if source in self._stamps)
            for name, source in sources.items():
                target = self._target / files[name].path
                if target.is_relative_to(self._target):
                    links[target.relative_to(self._target).as_posix()] = Path(source)
        card = self._earlier.card
        reused = ReusedJobs(
            run=card.id,
            path=str(self._earlier.run.root),
            jobs=tuple(match.kept),
            links=tuple(sorted(links)),
            stamps={number: each for number, each in stamps.items() if each},
        )
        return replace(plan, reused=reused, links=links)


def _existing_folder(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
