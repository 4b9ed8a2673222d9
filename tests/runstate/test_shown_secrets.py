"""No look at a run, and nothing that is written of it for others, shows the secrets of its configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.config.secret_values import read_secrets
from longshore.config.secrets import HIDDEN
from longshore.model.event import Ended
from longshore.reports.explain import explain_job
from longshore.reports.export.formats import ExportFormat, collect_crate, render_run
from longshore.reports.page.content import collect_page
from longshore.reports.page.render import render_run_page
from longshore.reports.report import report_run
from longshore.reports.show_job import show_job
from longshore.runstate.events import RunEvents
from longshore.runstate.open_run import OpenRun

CONFIG = "myToken: hunter2-x\nqueue: hunter2-x\ncommand: [sh, --password, abc77zz]\nurl: sftp://ada:geheim@h\n"
REASON = "failed to execute '/bin/x' with arguments --login 'hunter2.x' --token abc77zz sftp://ada:geheim@h"


@pytest.fixture
def failed(tmp_path: Path) -> OpenRun:
    """A run whose workload manager quotes the command in each reason for a failure."""
    run = WrittenRun(tmp_path / "run")
    run.run.merged_config("w").write_text(CONFIG, "utf-8")
    run.run.origins.write_text("{}", "utf-8")
    run.begin()
    for event in course():
        shown = msgspec.structs.replace(event, reason=REASON) if isinstance(event, Ended) and event.cause else event
        run.write(shown)
        run.know(shown)
    run.snapshot()
    return run.opened


LOOKS: dict[str, Callable[[OpenRun], object]] = {
    "explain": lambda opened: explain_job(opened, "j1"),
    "show-job": lambda opened: show_job(opened, "j1", attempt=1).reason,
    "report": lambda opened: getattr(report_run(opened, details=False, now=NOW).summary, "failures", None),
    "report of jobs": lambda opened: [*(report_run(opened, details=True, now=NOW).jobs or ())],
    "page": lambda opened: render_run_page(collect_page(opened, now=NOW)),
    "events": lambda opened: [*RunEvents(opened)],
    "crate": collect_crate,
    "table": lambda opened: b"".join(render_run(opened, ExportFormat.CSV)).decode(),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_no_secret_is_shown(failed: OpenRun, look: Callable[[OpenRun], object]) -> None:
    shown = str(look(failed))
    assert HIDDEN in shown
    assert not [secret for secret in ("hunter2", "abc77zz", "geheim") if secret in shown]


def test_recorded_values_have_the_secrets_of_keys_forms_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "m1")
    path = tmp_path / "config.yaml"
    path.write_text("x: {token: [4711, $<MINE>], tokenFile: f}\nurl: sftp://a:b@h\ndbPassword: hunter2\n", "utf-8")
    assert read_secrets(path) == ("sftp://a:b@", "hunter2", "4711", "m1")


@pytest.mark.parametrize("text", [None, "password: [", "password: x\npassword: \0"])
def test_a_configuration_that_cannot_be_read_has_none(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text, "utf-8")
    assert read_secrets(path) == ()
