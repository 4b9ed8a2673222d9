"""A run whose directory goes while it is watched is told of as such; one that is torn, as that."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.app.runs import OpenRun, open_run
from longshore.app.wait import wait_for
from longshore.contract.context import RunPaths
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.submission import RunCard


def opened(root: Path) -> OpenRun:
    card = RunCard(
        format=1, id="abcdef", name="n", service="local", longshore="0", created_at=0.0, expected=1, labels={}
    )
    return OpenRun(run=RunPaths(root), card=card)


def test_gone(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="is gone: the run directory was removed or moved"):
        wait_for(opened(tmp_path / "gone"), lambda _: None)


def test_torn(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadableError, match=r"workflow\.jsonl"):
        wait_for(opened(tmp_path), lambda _: None)


def test_a_run_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="there is no run directory") as caught:
        open_run(str(tmp_path / "nowhere"))
    assert "new path" in caught.value.hint


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="is not a run directory"):
        open_run(str(tmp_path))
