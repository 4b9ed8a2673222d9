"""Turns what is known of DAGMan's job into the lines a report has of whoever drives the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from longshore.contract.context import RunPaths, Unreachable
from longshore.model.moment import moment
from longshore.services.htcondor import ids
from longshore.services.htcondor.books import Book, nodes_log

ASKED: Final = ("JobStatus", "HoldReason", "DAG_NodesQueued", "DAG_NodesReady")
_HELD: Final = 5
"""``JobStatus`` of a job on hold."""


def lines(run: RunPaths, book: Book, found: list[Mapping[str, Any]] | Unreachable | None) -> Iterator[str]:
    """What there is to say.

    Parameters
    ----------
    run
        The run directory.
    book
        What was handed over.
    found
        What the queue has of DAGMan's job; ``None`` where it was not asked, because the run is over.
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
