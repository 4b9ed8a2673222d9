"""Ended runs no longer count at their sites: what they took is free again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from longshore.contract.service import RunPaths
from longshore.errors import FilesError
from longshore.rundir.histories import read_site_states, withdraw_claims
from longshore.rundir.registry import read_entry
from longshore.rundir.run_directory import read_snapshot


def withdraw_ended_runs(names: Iterable[str]) -> None:
    """Withdraw the claims of runs that ended.

    Only files of the runs are read, and no workload manager is asked. A run whose files do not tell its end counts for
    a day.
    """
    for name, state in read_site_states(names).items():
        ended = {claim.run for claim in state.claims if _has_ended(claim.run)} if state.claims else set()
        if ended:
            # A choice goes on without it: the claims end by themselves.
            with suppress(FilesError):
                withdraw_claims(name, ended)


def _has_ended(run: str) -> bool:
    entry = read_entry(run)
    if entry is None:
        return False
    snapshot = read_snapshot(RunPaths(Path(entry.path)))
    return (
        snapshot.finished if snapshot is not None else entry.report is not None and entry.report.finished_at is not None
    )
