"""``report --html``: a page of a run at any time, and clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli

CONFIG = """
payload: {payloadName: demo}
pipeline:
  dimensions: {visit: {range: [1, 3]}}
  tasks:
    good: {dimensions: [visit], command: "echo visit {visit}"}
    "<b>": {command: "echo '<script>alert(1)</script>'; exit 3"}
numberOfRetries: 0
submitPath: run
"""


@pytest.fixture
def prepared(cli: Cli, tmp_path: Path) -> Path:
    (tmp_path / "run.yaml").write_text(CONFIG, "utf-8")
    done = cli("prepare", "run.yaml")
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def test_a_run_has_a_page_before_and_after_it_ran(cli: Cli, prepared: Path, tmp_path: Path) -> None:
    before = cli("report", "run", "--html", "before.html")
    assert (before.returncode, before.stdout) == (0, ""), before.stderr
    assert before.said == ["wrote 'before.html'"]
    assert "No job has started" in (tmp_path / "before.html").read_text("utf-8")
    cli("submit", "run", "--wait")
    after = cli("report", "run", "--html", "-")
    assert after.returncode == 0, after.stderr
    assert after.stdout.startswith("<!doctype html>")
    assert after.stdout.endswith("</html>\n")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in after.stdout
    assert "<script>alert" not in after.stdout
    assert "exit code 3" in after.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "--html", "x.html", "--json"], "--html and --json exclude each other"),
        (["run", "--html", "x.html", "--watch"], "--html and --watch exclude each other"),
        (["--html", "x.html"], "Name the run, as in 'longshore report @last --html x.html'"),
        (["nosuchrun", "--html", "x.html"], "nosuchrun"),
        (["run", "--html", "no/x.html"], "the directory 'no' does not exist"),
        (["run", "--html", "."], "'.' is a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_page_that_cannot_be_written_is_refused(
    cli: Cli, prepared: Path, tmp_path: Path, args: list[str], words: str
) -> None:
    done = cli("report", *args)
    assert done.returncode != 0
    assert words.lower() in done.stderr.lower()
    assert not (tmp_path / "x.html").exists()
