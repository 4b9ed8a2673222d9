"""Keeps what was handed to HTCondor and what was ordered since: ``wms/htcondor.json`` in the run directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import RunUnreadableError
from longshore.model.run.event import Life, Restarted, Steer
from longshore.world.files.atomic import write_atomically
from longshore.world.files.locks import lock_folder

_BOOK: Final = PurePosixPath("wms", "htcondor.json")
DAG: Final = PurePosixPath("wms", "run.dag")
OVERRIDES: Final = PurePosixPath("wms", "overrides.dag")
_BACKUPS: Final = PurePosixPath("wms", "backups")


class Handed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run was handed over once.

    Attributes
    ----------
    life
        By whom, and when.
    cluster
        The number of DAGMan's job.
    schedd
        Name of the schedd that has it.
    global_id
        ``GlobalJobId``: the same, and unlike that of any other.
    restarted, steers
        What a restart runs again, and what it sets.
    retries
        How often DAGMan itself submits a job again, for those where it does.
    """

    life: Life
    cluster: int
    schedd: str
    global_id: str = ""
    restarted: Restarted | None = None
    steers: tuple[Steer, ...] = ()
    retries: dict[int, int] = {}


class Ordered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody ended the run or some of its jobs, or held or released some.

    Attributes
    ----------
    steer
        What was ordered, and when.
    life
        In which life.
    taken
        Whether HTCondor has taken it: until then nobody is told of it.
    """

    steer: Steer
    life: int
    taken: bool = True


class Book(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it, in order.

    Attributes
    ----------
    handed
        The submissions.
    ordered
        The orders.
    begun
        A submission that was begun, without the number of DAGMan's job: whether it was taken nobody has written down.
    """

    handed: tuple[Handed, ...] = ()
    ordered: tuple[Ordered, ...] = ()
    begun: Handed | None = None

    @property
    def taken(self) -> tuple[Ordered, ...]:
        """The orders that HTCondor has taken; those that follow are added behind them."""
        return tuple(order for order in self.ordered if order.taken)

    @property
    def last(self) -> Handed | None:
        """The newest submission."""
        return self.handed[-1] if self.handed else None


def read_book(run: RunPaths) -> Book:
    """What is written down; nothing where the run was never handed over.

    Raises
    ------
    RunUnreadableError
        It cannot be read.
    """
    path = run.root / _BOOK
    try:
        return msgspec.json.decode(path.read_bytes(), type=Book)
    except FileNotFoundError:
        return Book()
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error


def write_book(run: RunPaths, book: Book) -> None:
    """Write it down, whole or not at all."""
    path = run.root / _BOOK
    write_atomically(path, msgspec.json.format(msgspec.json.encode(book), indent=1) + b"\n", durable=True)
    # Lists of runs know by the journal's folder that there is news of a run that was over.
    os.utime(run.journal)


def amend_orders(run: RunPaths, change: Callable[[Book], tuple[Ordered, ...]]) -> None:
    """Write down other orders, which follow from those that are there; two who do so at once lose none.

    Parameters
    ----------
    run
        The run directory.
    change
        The new ones.

    Raises
    ------
    OSError
        Nothing can be written.
    """
    with lock_folder(run.wms):
        book = read_book(run)
        write_book(run, msgspec.structs.replace(book, ordered=change(book)))


def nodes_log(run: RunPaths, life: int, *, newest: int) -> Path:
    """The log of a submission's jobs.

    Parameters
    ----------
    run
        The run directory.
    life
        Which submission, counted from 1.
    newest
        The number of the last one: logs of earlier ones are kept apart.
    """
    return _of_life(run, life, newest) / "run.dag.nodes.log"


def dagman_log(run: RunPaths, life: int, *, newest: int) -> Path:
    """The log of DAGMan's own job; see `nodes_log`."""
    return _of_life(run, life, newest) / "run.dag.dagman.log"


def dagman_out(run: RunPaths, life: int, *, newest: int) -> Path:
    """What DAGMan had to say; see `nodes_log`."""
    return _of_life(run, life, newest) / "run.dag.dagman.out"


def backup_folder(run: RunPaths, life: int) -> Path:
    """Where the files of an earlier submission are kept."""
    return run.root / _BACKUPS / f"{life:03}"


def _of_life(run: RunPaths, life: int, newest: int) -> Path:
    kept = backup_folder(run, life)
    # A restart that was begun has kept the newest apart already.
    return run.wms if life == newest and not (kept / OVERRIDES.name).exists() else kept
