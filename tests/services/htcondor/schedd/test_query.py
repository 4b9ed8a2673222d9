"""A run is found at the schedd that has it, even if others do not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import UnreachableError
from longshore.services.htcondor.schedd.client import CondorClient, CondorId
from longshore.services.htcondor.schedd.query import first_directory

MEANT = CondorId(cluster=12)


class _Schedd(CondorClient):
    """A schedd that has a run in its queue or in its history, or stops to answer at one of the two."""

    def __init__(self, queue: Path | None, history: Path | None, *, silent: str = "") -> None:
        super().__init__(schedd="ap")
        self._queue = queue
        self._history = history
        self._silent = silent

    def query_jobs(self, constraint: str, attributes: Sequence[str]) -> list[Mapping[str, Any]] | Unreachable:
        return Unreachable(why="timed out") if self._silent == "queue" else _ads(self._queue)

    def query_history(
        self, constraint: str, attributes: Sequence[str], *, most: int = 1, since: str | None = None
    ) -> list[Mapping[str, Any]]:
        if self._silent == "history":
            raise UnreachableError("the schedd 'ap' does not answer: timed out")
        return _ads(self._history)


def _ads(folder: Path | None) -> list[Mapping[str, Any]]:
    """DAGMan's job, which started below a run directory or the folder of a submission of it."""
    if folder is None:
        return []
    root = folder.parents[1] if folder.parent.name == "submissions" else folder
    return [{"Iwd": str(folder / "wms"), "LongshorePath": str(root)}]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "wms").mkdir()
    RunPaths(tmp_path).card.touch()
    return tmp_path


@pytest.mark.parametrize("silent", ["queue", "history"])
def test_a_schedd_that_fails_does_not_end_the_search(run: Path, silent: str) -> None:
    silence = _Schedd(None, None, silent=silent)
    assert first_directory([silence, _Schedd(None, run)], MEANT, skip_failures=True) == run
    assert first_directory([silence, _Schedd(run, None)], MEANT, skip_failures=True) == run
    assert first_directory([silence], MEANT, skip_failures=True) is None


@pytest.mark.parametrize("silent", ["queue", "history"])
def test_a_single_silent_schedd_is_an_error(run: Path, silent: str) -> None:
    with pytest.raises(UnreachableError, match="timed out"):
        first_directory([_Schedd(None, run, silent=silent)], MEANT, skip_failures=False)
    assert first_directory([_Schedd(None, run)], MEANT, skip_failures=False) == run


def test_a_directory_without_run_is_none(run: Path) -> None:
    RunPaths(run).card.unlink()
    assert first_directory([_Schedd(run, None)], MEANT, skip_failures=False) is None


def test_the_dag_of_a_changed_workflow_leads_to_its_run(run: Path) -> None:
    folder = run / "submissions" / "0002"
    assert first_directory([_Schedd(folder, None)], MEANT, skip_failures=False) == run
    assert first_directory([_Schedd(None, folder)], MEANT, skip_failures=False) == run
