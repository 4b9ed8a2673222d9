"""A changed file that nothing executes keeps no run from going on; one that a job may use does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import WriteRun

FAILING = "runQuantumCommand: test -e ${PWD}/mended\nworkingDirectory: ${PWD}\nnumberOfRetries: 0\n"


@pytest.fixture
def failed(cli: Cli, write_run: WriteRun) -> Path:
    ran = cli("submit", write_run(FAILING), "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    return Path(ran.json["submit_dir"])


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def sources(run: Path) -> list[Path]:
    return [run / "origins.json", run / "made-from.json", *run.glob("*_config.yaml"), *(run / "inputs").iterdir()]


def is_succeeded(cli: Cli, run: Path) -> bool:
    return bool(cli("report", "--id", run, "--json").json["runs"][0]["state"] == "SUCCEEDED")


def test_files_that_only_tell_what_a_run_was_made_from_keep_none_from_going_on(
    cli: Cli, failed: Path, tmp_path: Path
) -> None:
    changed = sources(failed)
    assert len(changed) >= 5
    for path in changed[1:]:
        flip(path)
    changed[0].unlink()
    found = cli("verify", failed)
    assert found.returncode == 5
    for path in changed:
        assert f"'{path}': it" in found.stdout
    assert "what the run was made from is not known" in found.stdout

    resumed = cli("resume", failed)
    assert resumed.returncode == 0
    for path in changed:
        assert f"'{path}' " in resumed.stderr
    assert "it only tells what the run was made from, and nothing uses it" in resumed.stderr
    (tmp_path / "mended").touch()
    again = cli("restart", failed)
    assert again.returncode == 0, again.stderr
    assert f"'{changed[0]}' is not there any more: it only tells" in again.stderr
    eventually(lambda: is_succeeded(cli, failed))
    assert cli("verify", failed).returncode == 5, "it is still told"


def test_an_input_that_jobs_name_is_not_used_once_it_changed(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = "runQuantumCommand: test -e ${PWD}/mended && cat {submitPath}/inputs/run.yaml\nnumberOfRetries: 0\n"
    ran = cli("submit", write_run(text), "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    run = Path(ran.json["submit_dir"])
    flip(run / "inputs" / "run.yaml")
    (tmp_path / "mended").touch()
    refused = cli("restart", run)
    assert refused.returncode == 6
    assert f"'{run}/inputs/run.yaml' has another content now" in refused.stderr
    flip(run / "inputs" / "run.yaml")
    assert cli("restart", run).returncode == 0
    eventually(lambda: is_succeeded(cli, run))


def test_without_a_copy_of_a_changed_workflow_the_configuration_makes_a_new_run(
    cli: Cli, failed: Path, tmp_path: Path
) -> None:
    flip(failed / "workflow.jsonl")
    (tmp_path / "mended").touch()
    for options in ([], ["--accept-loss"]):
        refused = cli("restart", failed, *options)
        assert refused.returncode == 6
        assert "Without a copy, submit the configuration as a new run" in refused.stderr
        assert f"'{failed}/*_config.yaml'" in refused.stderr
    assert sorted(path.name for path in (failed / "journal").iterdir()) == ["0001.jsonl", "end.json"]
    (merged,) = failed.glob("*_config.yaml")
    ran = cli("submit", merged, "--set", f"submitPath={tmp_path}/new", "--wait")
    assert ran.returncode == 0, ran.stderr


def test_a_damaged_list_of_submissions_is_kept_as_it_reads_once_the_loss_is_accepted(
    cli: Cli, failed: Path, tmp_path: Path
) -> None:
    card = failed / "run.json"
    text = card.read_bytes()
    assert text.count(b'"by": "submit"') == 1
    card.write_bytes(text.replace(b'"by": "submit"', b'"by": "suBmit"'))
    (tmp_path / "mended").touch()
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert f"'{card}' has another content now" in refused.stderr
    assert f"longshore resume {failed} --accept-loss" in refused.stderr
    again = cli("restart", failed, "--accept-loss")
    assert again.returncode == 0, again.stderr
    assert f"lost, as accepted: '{card}': it did not fit its checksum" in again.stderr
    eventually(lambda: is_succeeded(cli, failed))
    assert cli("verify", failed).returncode == 0


def test_another_identity_is_never_accepted(cli: Cli, failed: Path) -> None:
    card = failed / "run.json"
    values = msgspec.json.decode(card.read_bytes())
    values["labels"] = {"Other": 1}
    card.write_bytes(msgspec.json.encode(values))
    refused = cli("resume", failed, "--accept-loss")
    assert refused.returncode == 6
    assert "Bring the file back from a copy of the run" in refused.stderr
