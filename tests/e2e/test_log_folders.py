"""Logs in folders of the user's own: written, found by every command, and tried again beside each other."""

from __future__ import annotations

from pathlib import Path

from tests.command import Cli

YAML = """\
pipeline:
  dimensions: {visit: [1, 2], detector: [7]}
  tasks:
    isr: {dimensions: [visit, detector], command: "echo visit {visit}; [ -e twice-{visit} ] || ! touch twice-{visit}"}
requestMemory: 10
numberOfRetries: 1
retryUnlessExit: null
retryDelay: 0
templateDataId: "{visit}"
submitPath: run
"""


def test_logs_lie_where_the_template_says(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(YAML + 'subDirTemplate: "{label}/{tract}/{visit:03}"\n', "utf-8")
    ran = cli("submit", path, "--wait")
    assert ran.returncode == 0, ran.stderr
    assert "without effect" not in ran.stderr
    logs = {str(each.relative_to(tmp_path / "run" / "logs")) for each in (tmp_path / "run" / "logs").rglob("*.log")}
    assert logs == {f"isr/00{visit}/isr_{visit}.{attempt}.log" for visit in (1, 2) for attempt in (1, 2)}
    shown = cli("logs", tmp_path / "run", "isr_2")
    assert shown.stdout.count("visit 2") >= 1, shown.stderr
    assert "run/logs/isr/002/isr_2.2.log" in cli("explain", tmp_path / "run", "isr_2").stdout
    (run,) = cli("report", "--id", tmp_path / "run", "--json").json["runs"]
    assert {job["log"] for job in run["jobs"]} == {"logs/isr/001/isr_1.2.log", "logs/isr/002/isr_2.2.log"}


def test_without_one_they_lie_where_they_always_do(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(YAML, "utf-8")
    assert cli("submit", path, "--wait").returncode == 0
    assert (tmp_path / "run" / "logs" / "isr" / "00" / "isr_1.2.log").exists()


def test_a_format_that_does_not_suit_a_value_is_an_error_with_its_place(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(YAML + 'subDirTemplate: "{label:d}"\n', "utf-8")
    ran = cli("prepare", path)
    assert ran.returncode == 3
    assert "run.yaml:11:17: 'subDirTemplate'" in ran.stderr
    assert not (tmp_path / "run").exists()
