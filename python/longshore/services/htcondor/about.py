"""Turns what is known of DAGMan's job into the lines a report has of whoever drives the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from longshore.contract.context import RunPaths, Unreachable
from longshore.model.codec import decode_job
from longshore.model.moment import moment
from longshore.services.htcondor import ids, provider
from longshore.services.htcondor.books import Book, dagman_out, nodes_log
from longshore.services.htcondor.dagmanout import gate_failures, submit_failures
from longshore.services.htcondor.order import GATE
from longshore.services.htcondor.provisioning import SCRIPT
from longshore.services.htcondor.standing import Standing
from longshore.world.rundir import open_workflow

ASKED: Final = ("JobStatus", "HoldReason", "DAG_NodesQueued", "DAG_NodesReady")
_HELD: Final = 5
"""``JobStatus`` of a job on hold."""


def lines(
    run: RunPaths,
    book: Book,
    found: list[Mapping[str, Any]] | Unreachable | None,
    standing: Callable[[], Standing],
) -> Iterator[str]:
    """What there is to say.

    Parameters
    ----------
    run
        The run directory.
    book
        What was handed over.
    found
        What the queue has of DAGMan's job; ``None`` where it was not asked, because the run is over.
    standing
        Says where jobs stand; asked only where something starts machines beside the run.
    """
    last = book.last
    assert last is not None
    if book.begun is not None:
        yield (
            f"Another {book.begun.life.by} was begun {moment(book.begun.life.t)} on '{book.begun.life.host}', and not "
            "said to be taken; if that was interrupted, the same again finds out and goes on from there"
        )
    yield (
        f"DAGMan: job {ids.shown(last.cluster)} of the schedd '{last.schedd}', submitted {moment(last.life.t)}"
        f" by {last.life.by}"
    )
    try:
        written = nodes_log(run, len(book.handed), newest=len(book.handed)).stat().st_mtime
    except OSError:
        yield "Its log is not there yet: DAGMan has submitted nothing"
    else:
        yield f"Its log tells of what happened up to {moment(written)}"
    if isinstance(found, Unreachable):
        yield f"The schedd does not answer, so what is told is what the log says: {found.why}"
    elif found and found[0].get("JobStatus") == _HELD:
        reason = found[0].get("HoldReason") or "no reason is given"
        yield f"DAGMan itself is held: {reason}; to let it go on: longshore resume {ids.shown(last.cluster)}"
    if found is not None:
        yield from _not_submitted(run, book)
    if (run.wms / GATE).exists():
        for said in gate_failures(dagman_out(run, len(book.handed), newest=len(book.handed))):
            yield f"What a group was to wait for is not known, so it never runs: {said} ('wms/{GATE}' needs python3)"
    if (run.wms / SCRIPT).exists():
        yield provider.words(standing().provider)


def _not_submitted(run: RunPaths, book: Book) -> Iterator[str]:
    """What DAGMan has given up while it runs; its log has no word of that, and so no job is told to have failed yet."""
    with open_workflow(run) as (header, _, jobs):
        newest = len(book.handed)
        failures = submit_failures(dagman_out(run, newest, newest=newest), header.jobs)
        if not failures:
            return
        first = min(failures)
        name = decode_job(next(islice(jobs, first, None))).name
    which = f"job '{name}'" if len(failures) == 1 else f"{len(failures):,} jobs, '{name}' among them"
    yield f"For {which}: {failures[first]}; told of as failed once DAGMan is over"
