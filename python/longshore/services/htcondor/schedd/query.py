"""Finds, reports and cancels runs in schedds, by id, user or attributes, without their directories."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from longshore.contract.service import CancelOutcome, RemoteRuns, RunPaths, RunSearch, Unreachable
from longshore.errors import ServiceError, SubmissionRefusedError, UnreachableError, UsageError
from longshore.model.report import RunReport
from longshore.services.htcondor.schedd.client import CLOCKS_S, Ad, CondorClient, quoted
from longshore.services.htcondor.schedd.ids import CondorId, parse_id
from longshore.services.htcondor.schedd.query_report import DAGMAN_ATTRIBUTES, JOB_ATTRIBUTES, build_report

_DIRECTORY: Final = ("Iwd", "LongshorePath", "LongshoreRun")
_FORCE: Final = "-forcex"
"""Option that drops unreachable jobs from the queue."""
_DAY_S: Final = 86_400
_MIN_DAYS: Final = 2.0
"""Minimum of days of history to search for a run with a given id, as in BPS."""
_DAGMAN: Final = "JobUniverse == 7 && DAGManJobId =?= undefined"
"""Constraint for DAGMan jobs that no other DAGMan submitted."""
_RUNS: Final = f'{_DAGMAN} && (bps_isjob =?= "True" || LongshoreRun =!= undefined)'
"""Constraint for DAGMan jobs of runs: of Longshore, started or not, and of BPS."""


def find_directory(condor_id: CondorId, *, everywhere: bool) -> Path | None:
    """The directory of the run with this DAGMan job; ``None`` for another job, or another host's run.

    `everywhere` asks all schedds that the collector knows. Raises `ServiceError` if the schedd does not answer.
    """
    everywhere = everywhere and not condor_id.schedd
    return first_directory(_clients(condor_id.schedd, everywhere=everywhere), condor_id, skip_failures=everywhere)


def first_directory(clients: Iterable[CondorClient], condor_id: CondorId, *, skip_failures: bool) -> Path | None:
    """The same, from the first of the schedds that knows the job.

    `skip_failures` skips schedds that do not answer; otherwise `ServiceError` is raised.
    """
    constraint = f"{_id_constraint(condor_id)} && LongshoreRun =!= undefined"
    for client in clients:
        try:
            ads = _find_ads(client, constraint, condor_id)
        except ServiceError:
            if skip_failures:
                continue
            raise
        folders = (folder for ad in ads for folder in _folders(ad))
        if directory := next((folder for folder in folders if RunPaths(folder).card.is_file()), None):
            return directory
    return None


def _folders(ad: Ad) -> Iterator[Path]:
    """Folders that may be the directory of a run; DAGMan starts in a folder of it, or of one of its submissions."""
    if ad.get("Iwd"):
        yield Path(str(ad["Iwd"])).parent
    if ad.get("LongshorePath"):
        yield Path(str(ad["LongshorePath"]))


def _find_ads(client: CondorClient, constraint: str, condor_id: CondorId) -> list[Ad]:
    """Ads of a job, from the queue, else from the history."""
    answer = client.query_jobs(constraint, _DIRECTORY)
    if isinstance(answer, Unreachable):
        raise UnreachableError(f"the run of job '{condor_id.cluster}' cannot be looked up: {answer.why}")
    return answer or client.query_history(constraint, _DIRECTORY)


def query_runs(search: RunSearch) -> RemoteRuns:
    """Reports of the runs that match a search, from the queues and the histories of schedds.

    Raises `ServiceError` if HTCondor is not usable, or if the only schedd searched does not answer.
    """
    condor_id = parse_id(search.reference) if search.reference else None
    if search.reference and condor_id is None:
        return RemoteRuns()
    CondorClient().require_constraint(search.pass_thru)
    everywhere = search.everywhere and not (condor_id and condor_id.schedd)
    reports: list[RunReport] = []
    notes: list[str] = []
    for client in _clients(condor_id.schedd if condor_id else "", everywhere=everywhere):
        try:
            reports += _schedd_reports(client, search, condor_id)
        except (ServiceError, UnreachableError) as error:
            if not everywhere:
                raise
            notes.append(error.message)
    return RemoteRuns(reports=tuple(reports), notes=tuple(notes))


def cancel_run(search: RunSearch) -> CancelOutcome:
    """Remove the DAGMan job of a run with a given id.

    With ``-forcex`` the schedd forgets the job (``RemoveX``). Raises `SubmissionRefusedError` if no queued job matches.
    """
    condor_id = parse_id(search.reference)
    if condor_id is None:
        raise SubmissionRefusedError(f"'{search.reference}' is not an id of HTCondor")
    is_forced, also = parse_pass_thru(CondorClient(), search.pass_thru)
    constraint = f"{_search_constraint(search, condor_id)}{also}"
    everywhere = search.everywhere and not condor_id.schedd
    count = 0
    for client in _clients(condor_id.schedd, everywhere=everywhere):
        try:
            count += client.apply_action("RemoveX" if is_forced else "Remove", constraint, "longshore cancel")
        except UnreachableError:
            if not everywhere:
                raise
    if not count:
        raise SubmissionRefusedError(
            f"no job '{search.reference}' in a queue matches the request",
            hint="Check the id; --global searches all queues, and --skip-require-bps accepts jobs that are no runs.",
        )
    return CancelOutcome(ended=count, alive=("still alive: DAGMan is in the queue",))


def parse_pass_thru(client: CondorClient, text: str) -> tuple[bool, str]:
    """Parse ``--pass-thru`` of ``cancel`` as BPS does: whether to forget jobs, and an additional constraint."""
    words = text.split()
    rest = " ".join(word for word in words if word != _FORCE)
    if rest.startswith("-"):
        raise UsageError(
            f"'--pass-thru' has '{rest}', which removing a run from HTCondor does not know",
            hint=f"It knows {_FORCE} (HTCondor forgets jobs whose machines do not answer), and constraints.",
        )
    client.require_constraint(rest)
    return _FORCE in words, f" && ({rest})" if rest else ""


def _clients(schedd: str, *, everywhere: bool) -> Iterator[CondorClient]:
    if not everywhere:
        yield CondorClient(schedd=schedd)
        return
    yield from (CondorClient(schedd=name) for name in CondorClient().schedds())


def _schedd_reports(client: CondorClient, search: RunSearch, condor_id: CondorId | None) -> Iterator[RunReport]:
    constraint = _search_constraint(search, condor_id)
    answer = client.query_jobs(constraint, DAGMAN_ATTRIBUTES)
    if isinstance(answer, Unreachable):
        raise UnreachableError(answer.why)
    days = max(search.days, _MIN_DAYS) if condor_id else search.days
    ads = list(answer)
    if days and not (condor_id and ads):
        since = f"EnteredCurrentStatus < {int(time.time() - days * _DAY_S)}"
        ads += client.query_history(constraint, DAGMAN_ATTRIBUTES, most=1 if condor_id else -1, since=since)
    schedd = client.schedd().name
    for ad in ads:
        yield build_report(ad, schedd, _node_ads(client, ad) if condor_id else None)


def _node_ads(client: CondorClient, dagman: Ad) -> list[Ad]:
    """Ads of a DAGMan's jobs, in the queue and in the history."""
    constraint = f"DAGManJobId =?= {dagman['ClusterId']} && JobUniverse =!= 7"
    answer = client.query_jobs(constraint, JOB_ATTRIBUTES)
    if isinstance(answer, Unreachable):
        raise UnreachableError(answer.why)
    since = f"EnteredCurrentStatus < {int(dagman.get('QDate', 0)) - CLOCKS_S}"
    return [*answer, *client.query_history(constraint, JOB_ATTRIBUTES, most=-1, since=since)]


def _search_constraint(search: RunSearch, condor_id: CondorId | None) -> str:
    if condor_id:
        return f"{_id_constraint(condor_id)} && {_RUNS}" if search.runs_only else _id_constraint(condor_id)
    if search.pass_thru:
        return f"{_DAGMAN} && ({search.pass_thru})"
    if search.user:
        return f"{_RUNS} && (Owner == {quoted(search.user)} || bps_operator =?= {quoted(search.user)})"
    return _RUNS


def _id_constraint(condor_id: CondorId) -> str:
    return f"ClusterId == {condor_id.cluster}" + (
        f" && QDate == {condor_id.qdate}" if condor_id.qdate is not None else ""
    )
