"""An engine that cannot be started is an error with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.contract.context import RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.services.local.service import LocalService
from longshore.testing.runs import write_run


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return write_run(tmp_path / "my run", {"a_1": ()})


def test_an_engine_without_a_log_is_told_with_the_way_out(run: RunPaths) -> None:
    run.engine_log.mkdir(parents=True)
    with pytest.raises(SubmissionRefusedError) as caught:
        LocalService().start_engine(run, "resume")
    assert caught.value.message.startswith(f"the engine of '{run.root}' cannot be started: '{run.engine_log}'")
    assert caught.value.hint == f"Remove the cause, then: longshore resume '{run.root}'"
