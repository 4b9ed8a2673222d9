"""Constraints for the jobs of a submission in the queue, by the names that its DAG gives its nodes."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.contract.service import RunPaths, Unreachable
from longshore.engine.rundir.job_table import JobTable
from longshore.services.htcondor.node_names import BPS_FINAL_NODE, FINAL_NODE
from longshore.services.htcondor.schedd.client import CondorClient, quoted
from longshore.services.htcondor.submission_record import DagSubmission

_DAGMAN_UNIVERSE = 7


def final_node(submission: DagSubmission) -> str:
    """Return the node of the final job."""
    return BPS_FINAL_NODE if submission.dag else FINAL_NODE


def below(client: CondorClient, submission: DagSubmission) -> str:
    """Return the constraint of all jobs below DAGMan; groups of BPS have DAGMan jobs of their own."""
    own = f"DAGManJobId =?= {submission.cluster}"
    if not submission.dag or len(submission.logs) < 2:
        return own
    found = client.query_jobs(f"{own} && JobUniverse == {_DAGMAN_UNIVERSE}", ("ClusterId",))
    if isinstance(found, Unreachable) or not found:
        return own
    groups = ", ".join(str(ad["ClusterId"]) for ad in found)
    return f"({own} || member(DAGManJobId, {{{groups}}}))"


def of_all_jobs(client: CondorClient, submission: DagSubmission) -> str:
    """Return the constraint of the jobs of the workflow, without DAGMan jobs and services."""
    of_node = f"JobUniverse != {_DAGMAN_UNIVERSE}" if submission.dag else "LongshoreJob =!= undefined"
    return f"{below(client, submission)} && {of_node}"


def of_jobs(run: RunPaths, client: CondorClient, submission: DagSubmission, jobs: Iterable[int]) -> str:
    """Return the constraint of some jobs, by number."""
    if submission.dag:
        names = ", ".join(quoted(name) for name in JobTable(run).names_of(jobs).values())
        return f"{below(client, submission)} && member(DAGNodeName, {{{names}}})"
    return f"DAGManJobId =?= {submission.cluster} && member(LongshoreJob, {{{', '.join(map(str, jobs))}}})"
