"""A journal with numbers that no engine writes is unreadable, and no bug of a command."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.errors import RunUnreadableError
from longshore.runstate.open_run import map_index_errors


def test_a_number_that_is_too_large_makes_a_journal_unreadable(tmp_path: Path) -> None:
    attempts = array("i", [0])
    with (
        pytest.raises(RunUnreadableError, match="no engine writes"),
        map_index_errors(RunPaths(tmp_path)),
    ):
        attempts[0] = 10**18


def test_a_job_that_is_not_there_makes_a_journal_unreadable(tmp_path: Path) -> None:
    attempts = array("i", [0])
    with pytest.raises(RunUnreadableError, match="different runs"), map_index_errors(RunPaths(tmp_path)):
        attempts[1] = 1
