"""An option without effect is an error; one of BPS, where people are used to it, is a note."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import WriteRun


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["submitcmd", "FILE", "--dry-run", "--wait"], "--dry-run submits nothing: leave out --wait"),
        (["submitcmd", "FILE", "--dry-run", "--share-outputs"], "--dry-run submits nothing: leave out --share-outputs"),
        (["submit", "FILE", "--reuse", "@last", "--dry-run", "--wait"], "--dry-run submits nothing: leave out --wait"),
        (["report", "--bps", "--json"], "--bps and --json exclude each other"),
        (["report", "--bps", "--tsv"], "--bps and --tsv exclude each other"),
        (["report", "@last", "--bps", "--json"], "--bps and --json exclude each other"),
    ],
)
def test_an_option_without_effect_is_an_error(words: list[str], message: str, cli: Cli, write_run: WriteRun) -> None:
    path = write_run()
    done = cli(*(str(path) if word == "FILE" else word for word in words))
    assert done.returncode == 2
    assert message in done.stderr


def test_options_of_bps_without_effect_are_notes(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    begun = cli("submit", write_run(), "--wait", "--set", f"submitPath={run}", "-b", "repo", "--id-link-path", "links")
    assert begun.returncode == 0, begun.stderr
    assert "note: command line: '--butler-config' has no effect" in begun.stderr
    assert "note: command line: '--id-link-path' has no effect: no link is made" in begun.stderr
    for words, note in (
        (["status", run, "--hist", "2"], "'--hist' has no effect: the state of a run is always known here"),
        (["report", run, "--pass-thru", "x"], "'--pass-thru' has no effect: it is for the list of runs"),
        (["report", "--return-exit-codes"], "'--return-exit-codes' has no effect: it is for a single run"),
        (["ping", "--pass-thru", "x"], "'--pass-thru' has no effect: a ping asks"),
        (["cancel", run, "--pass-thru", "x"], "'--pass-thru' has no effect: the service 'local' takes no options"),
    ):
        done = cli(*words)
        assert done.returncode == 0, done.stderr
        assert note in done.stderr, words
    dry = cli("restart", run, "--dry-run", "--share-outputs")
    assert (dry.returncode, "--dry-run runs nothing: leave out --share-outputs" in dry.stderr) == (2, True)
