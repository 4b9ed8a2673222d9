"""No error and no note of a submission, a preparation or a check shows the secrets of its configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.progress_notes import ProgressNotes

from longshore.config.hidden_secrets import hide_read_secrets
from longshore.config.layers import Overrides
from longshore.config.secrets import HIDDEN
from longshore.control.notifier import try_notices
from longshore.errors import LongshoreError
from longshore.model.submission import SubmissionChecks
from longshore.plan.lint_file import lint_file
from longshore.plan.ping import ping
from longshore.plan.site_check import check_site
from longshore.plan.stages import Stage, run_stages
from longshore.plan.submission import submit
from longshore.progress import Progress

SECRET: Final = "hunter2-x"  # noqa: S105 - of no account
HEAD: Final = f"dbPassword: {SECRET}\n"
TASK: Final = "pipeline: {tasks: {one: {command: 'true'}}}\n"

CASES: Final = [
    ("a site", f"{HEAD}{TASK}computeSite: '{{dbPassword}}'\n"),
    ("a program", f"{HEAD}pipeline: {{tasks: {{one: {{command: '/nowhere/{{dbPassword}} x'}}}}}}\n"),
    ("a request", f"{HEAD}{TASK}requestMemory: '{{dbPassword}}'\n"),
    ("a variable of the environment", f"dbPassword: $<ANY_VARIABLE>\n{TASK}requestMemory: '{{dbPassword}}'\n"),
    ("the same text", f"{HEAD}{TASK}requestWalltime: {SECRET}\n"),
]

Act = Callable[[Path, Progress], object]
ACTS: Final[dict[str, Act]] = {
    "submit": lambda path, progress: submit(path, progress=progress),
    "submit strictly": lambda path, progress: submit(path, checks=SubmissionChecks(strict=True), progress=progress),
    "prepare": lambda path, progress: run_stages(path, Stage.PREPARE, progress=progress),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("ANY_VARIABLE", SECRET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("text", [text for _, text in CASES], ids=[name for name, _ in CASES])
def test_a_refusal_shows_no_secret_of_another_key(folder: Path, text: str, act: str) -> None:
    path = folder / "run.yaml"
    path.write_text(f"{text}submitPath: {folder}/made\n", "utf-8")
    progress = ProgressNotes()
    with pytest.raises(LongshoreError) as refused:
        ACTS[act](path, progress)
    error = refused.value
    said = [str(error), *error.args, error.hint, *(f"{each.message}{each.hint}" for each in error.details)]
    assert HIDDEN in " ".join([*said, *progress.notes])
    assert SECRET not in " ".join([*said, *progress.notes, repr(error.__cause__)])
    assert not [each for each in (folder / "state").rglob("*.json") if SECRET in each.read_text("utf-8")]
    assert SECRET in hide_read_secrets(SECRET), "a secret is one of its own configuration only"


@pytest.mark.parametrize("text", [text for _, text in CASES], ids=[name for name, _ in CASES])
def test_a_finding_shows_no_secret_of_another_key(folder: Path, text: str) -> None:
    path = folder / "run.yaml"
    path.write_text(text, "utf-8")
    linted = lint_file(path)
    said = [f"{each.message}{each.hint}{linted.source(each)}" for each in linted.findings]
    assert HIDDEN in " ".join(said)
    assert SECRET not in " ".join([*said, *linted.left_out])


def test_questions_to_a_site_show_no_secret(folder: Path) -> None:
    path = folder / "run.yaml"
    path.write_text(f"{HEAD}{TASK}wmsServiceClass: '{{dbPassword}}'\n", "utf-8")
    with pytest.raises(LongshoreError) as refused:
        ping(None, path=path)
    assert HIDDEN in str(refused.value)
    assert SECRET not in f"{refused.value}{refused.value.hint}"
    (folder / "p.yaml").write_text(f"{HEAD}service: '{{dbPassword}}'\n", "utf-8")
    check = check_site("p", [str(folder)], now=0)
    said = [f"{each.message}{each.hint}" for each in check.problems]
    assert said
    assert SECRET not in " ".join(said)


def test_a_trial_of_notices_shows_no_secret(folder: Path) -> None:
    path = folder / "run.yaml"
    rule = f"{{events: [end], command: 'echo {SECRET} >&2; exit 3'}}"
    path.write_text(f"{HEAD}{TASK}notify: {{mine: {rule}}}\n", "utf-8")
    (trial,) = try_notices(str(path), Overrides({}), now=0, show=lambda _: None)
    assert HIDDEN in trial.why
    assert SECRET not in trial.why
