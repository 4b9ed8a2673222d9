"""Advice for options of other programs, which users type by habit."""

from __future__ import annotations

import pytest

from longshore.cli.main import main


@pytest.mark.parametrize("option", ["--dry-run", "--dryrun", "-n"])
def test_an_option_for_a_rehearsal_names_the_commands_that_submit_nothing(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["submit", option, __file__])
    assert refused.value.code == 2
    told = capsys.readouterr().err
    assert "'longshore transform FILE' makes the jobs and submits none" in told
    assert "'longshore show-job DIR JOB'" in told


def test_by_content_alone_wants_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["submit", "--by-content", __file__])
    assert refused.value.code == 2
    assert "--by-content is for --reuse RUN: name the run" in capsys.readouterr().err
