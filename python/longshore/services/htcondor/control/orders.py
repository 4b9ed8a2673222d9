"""Turns what people order of a live run into orders to the schedd and to DAGMan, and writes down that they did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from longshore.contract.context import RunPaths, Unreachable
from longshore.contract.intervention import CancelOutcome, Intervention, JobSelection
from longshore.engine.rundir.job_table import JobTable, read_header
from longshore.errors import SubmissionRefusedError, UnreachableError, UsageError
from longshore.model.run.event import Steer
from longshore.services.htcondor.control import not_in_queue
from longshore.services.htcondor.node_names import FINAL
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.services.htcondor.submissions import Book, Ordered, amend_orders
from longshore.world.host import user_name

_FORCE: Final = "-forcex"
_GONE_S: Final = 20.0
"""How long the queue is looked at until what was removed is gone; the final job has as long as it needs."""
_LOOK_S: Final = 0.1
_BEGUN_S: Final = 15.0
_REASON: Final = "longshore cancel"


def cancel_all(run: RunPaths, client: CondorClient, book: Book, selection: JobSelection, dagman: str) -> CancelOutcome:
    """Remove DAGMan, and with it all of its jobs; DAGMan then starts the final job, unless it is forced out at once.

    Where only the final job is left, DAGMan would take it along: then it is only noted that the run was cancelled.

    Parameters
    ----------
    run, client, book
        The run.
    selection
        Whether the final job is to be skipped, and whether HTCondor is to forget the jobs (``-forcex``).
    dagman
        Constraint that DAGMan's job meets.

    Raises
    ------
    UnreachableError
        The schedd does not answer, and nothing was cancelled.
    """
    forced, also = _passed(client, selection)
    last = book.last
    assert last is not None
    below = f"DAGManJobId =?= {last.cluster}"
    active = client.jobs(below, ("ClusterId", "DAGNodeName"))
    if isinstance(active, Unreachable):
        raise UnreachableError(
            f"'{run.root}' cannot be cancelled: {active.why}",
            hint="Nothing was cancelled. Cancel it again when the schedd answers.",
        )
    steer = Steer(
        who=user_name(), act="cancel", set={"final": "no"} if selection.final_too or forced else {}, t=time.time()
    )
    if active and all(ad.get("DAGNodeName") == FINAL for ad in active) and not (selection.final_too or forced):
        _note(run, steer)
        return CancelOutcome(ended=0)
    # Whoever is killed right behind it has it told who removed the run, and not only that it was removed. A full disk
    # is no reason not to: that it was removed is told by its log.
    with suppress(OSError):
        _note(run, steer, taken=False)
    try:
        removed = _remove_dagman(client, f"{dagman}{also}", also)
        if selection.final_too or forced:
            # DAGMan would start the final job now.
            removed += client.act("RemoveX", dagman, _REASON)
            removed += client.act("RemoveX" if forced else "Remove", below, _REASON)
    except BaseException:
        with suppress(OSError):
            _unnote(run, steer)
        raise
    if removed:
        with suppress(OSError):
            _taken(run, steer)
    left = _left(client, below, dagman)
    return CancelOutcome(
        ended=len(active),
        alive=tuple(f"job {name} is still in the queue" for name in left),
    )


def _remove_dagman(client: CondorClient, constraint: str, also: str) -> int:
    removed = client.act("Remove", constraint, _REASON)
    if not removed and also:
        raise SubmissionRefusedError(
            "the run is not cancelled: it does not meet what '--pass-thru' asks for", hint="Leave '--pass-thru' out."
        )
    return removed


def cancel_some(run: RunPaths, client: CondorClient, cluster: int, selection: JobSelection) -> CancelOutcome:
    """Remove some jobs; what descends from them is never run.

    Raises
    ------
    SubmissionRefusedError
        None of them is in the queue: DAGMan cannot be told to leave out what it has not submitted.
    """
    chosen = chosen_jobs(run, selection)
    forced, also = _passed(client, selection)
    here = f"{_in_queue(cluster, chosen)}{also}"
    count = client.act("RemoveX" if forced else "Remove", here, _REASON)
    if not count and chosen:
        raise SubmissionRefusedError(
            "none of these jobs is in HTCondor's queue: they are over, or DAGMan has not submitted them yet, and will",
            hint="'report' says which. Cancel them when they are in the queue, or the whole run.",
        )
    still = (f"job {name} is still in the queue" for name in _left(client, here))
    return CancelOutcome(ended=count, alive=(*still, *not_in_queue.told(run, chosen, "cancel")))


def steer(run: RunPaths, client: CondorClient, book: Book, intervention: Intervention) -> bool:
    """Hold, release, pause or throttle.

    Raises
    ------
    SubmissionRefusedError
        HTCondor has no such order.
    """
    last = book.last
    assert last is not None
    selection, act = intervention.selection, intervention.act
    who, now = user_name(), time.time()
    if act in {"hold", "release"}:
        constraint = (
            f"DAGManJobId =?= {last.cluster} && LongshoreJob =!= undefined"
            if selection.everything
            else _in_queue(last.cluster, chosen_jobs(run, selection))
        )
        why = f"longshore {act}" + (f": {intervention.set['why']}" if intervention.set.get("why") else "")
        if not client.act(act.capitalize(), constraint, why):
            raise SubmissionRefusedError(
                f"there is nothing to {act}: none of these jobs is in HTCondor's queue"
                + (" and not held" if act == "hold" else " and held"),
                hint="What DAGMan has not submitted yet can only be paused with the whole run: longshore pause.",
            )
        return True
    if act in {"pause", "unpause"} and selection.everything:
        why = intervention.set.get("why") or f"paused by {who}"
        _once_begun(lambda: client.steer_dag(last.cluster, halt=why if act == "pause" else None))
        _note(run, Steer(who=who, act=act, set=intervention.set, t=now))
        return True
    if act == "throttle" and selection.everything:
        most = int(intervention.set.get("max", 0))
        _once_begun(lambda: client.throttle_dag(last.cluster, most))
        _note(run, Steer(who=who, act=act, set=intervention.set, t=now))
        return True
    raise _cannot(act)


def unreached_notes(run: RunPaths, intervention: Intervention) -> tuple[str, ...]:
    """What to say of jobs that an order was to reach, and that nobody could give it to.

    Parameters
    ----------
    run
        The run directory.
    intervention
        The order, which was taken. What was not submitted yet needs no release.
    """
    if intervention.act != "hold":
        return ()
    if not intervention.selection.everything:
        return not_in_queue.told(run, chosen_jobs(run, intervention.selection), "hold")
    header = read_header(run)
    # The final job comes after those that are held.
    return not_in_queue.told(run, range(header.jobs - header.final), "hold")


def _cannot(act: str) -> SubmissionRefusedError:
    if act == "set":
        return SubmissionRefusedError(
            "nothing can be set of the jobs of a run that lives on HTCondor: DAGMan has their descriptions already",
            hint="'restart --set' changes what jobs ask for that run again, once the run is over or cancelled.",
        )
    return SubmissionRefusedError(
        f"DAGMan cannot {act} single labels or jobs of a run",
        hint=f"Without --label and --job, '{act}' is for the whole run; 'category' and 'htcondor.maxJobs' of the site "
        "narrow some of its jobs from the beginning.",
    )


def _once_begun(order: Callable[[], None]) -> None:
    """Give DAGMan an order, which it takes a few seconds after it was submitted."""
    deadline = time.monotonic() + _BEGUN_S
    while True:
        try:
            return order()
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_S)


def chosen_jobs(run: RunPaths, selection: JobSelection) -> list[int]:
    """Numbers of the jobs that are meant."""
    return JobTable(run).select(names=selection.jobs, labels=selection.labels)


def _in_queue(cluster: int, jobs: Iterable[int]) -> str:
    numbers = ", ".join(map(str, jobs))
    return f"DAGManJobId =?= {cluster} && member(LongshoreJob, {{{numbers}}})"


def _passed(client: CondorClient, selection: JobSelection) -> tuple[bool, str]:
    """Whether jobs are to be forgotten, and what else they have to meet, as BPS reads ``--pass-thru``."""
    words = selection.pass_thru.split()
    rest = " ".join(word for word in words if word != _FORCE)
    if rest.startswith("-"):
        raise UsageError(
            f"'--pass-thru' has '{rest}', which removing a run from HTCondor does not know",
            hint=f"It knows {_FORCE} (HTCondor forgets jobs whose machines do not answer), and constraints.",
        )
    client.require_constraint(rest)
    return _FORCE in words, f" && ({rest})" if rest else ""


def _left(client: CondorClient, below: str, dagman: str = "false") -> list[str]:
    """Jobs that are still there after a while, but for a final job that runs."""
    deadline = time.monotonic() + _GONE_S
    while True:
        found = client.jobs(
            f"({below}) || ({dagman})", ("ClusterId", "ProcId", "JobStatus", "DAGNodeName", "JobUniverse")
        )
        if isinstance(found, Unreachable):
            raise UnreachableError(f"whether the jobs are gone cannot be told: {found.why}")
        jobs = [ad for ad in found if "DAGNodeName" in ad]
        final = [ad for ad in jobs if ad["DAGNodeName"] == FINAL]
        if not found or (final and len(final) == len(jobs)):
            return []
        if time.monotonic() > deadline:
            return [f"{ad['ClusterId']}.{ad.get('ProcId', 0)}" for ad in found]
        time.sleep(_LOOK_S)


def _note(run: RunPaths, steer: Steer, *, taken: bool = True) -> None:
    amend_orders(run, lambda book: (*book.ordered, Ordered(steer=steer, life=len(book.handed), taken=taken)))


def _taken(run: RunPaths, steer: Steer) -> None:
    """HTCondor has taken the order; it comes behind those that were taken before, which may be told of already."""

    def change(book: Book) -> tuple[Ordered, ...]:
        noted = [order for order in book.ordered if not order.taken and order.steer == steer]
        life = noted[0].life if noted else len(book.handed)
        return (*(order for order in book.ordered if order not in noted), Ordered(steer=steer, life=life))

    amend_orders(run, change)


def _unnote(run: RunPaths, steer: Steer) -> None:
    """The order was not taken."""
    amend_orders(run, lambda book: tuple(order for order in book.ordered if order.taken or order.steer != steer))
