"""A look at a configuration imports no code that only the configuration names; a submission imports it, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from longshore.config.layers import Overrides
from longshore.config.schema import Severity
from longshore.config.service_lookup import SERVICE_VARIABLE
from longshore.errors import CodeRefusedError, LongshoreError, UnknownServiceError
from longshore.plan.configuration import explain_keys, read_draft_without_code
from longshore.plan.lint_file import lint_file
from longshore.plan.ping import ping
from longshore.plan.site_check import check_site
from longshore.plan.site_choice import match_sites
from longshore.progress import QuietProgress
from longshore.reports.draw import draw_configuration

PIPELINE = "pipeline: {tasks: {a: {command: 'true'}}}\n"
NAMED = {
    "service": f"wmsServiceClass: foreign.Service\n{PIPELINE}",
    "service of a site": f"computeSite: x\nsite: {{x: {{service: foreign.Service}}}}\n{PIPELINE}",
    "service of candidates": "computeSite: auto\nsiteSelection: {select: {name: least_loaded}}\n"
    f"site: {{x: {{service: foreign.Service}}, y: {{service: foreign.Service}}}}\n{PIPELINE}",
    "options of a service": f"wmsServiceClass: foreign.Service\nbackendOptions: --x=y\n{PIPELINE}",
    "original service": f"convertFrom: {{site: x, service: foreign.Service}}\nsite: {{x: {{}}}}\n{PIPELINE}",
    "graph": "graphSource: foreign.call\n",
    "clusters": f"clusterAlgorithm: foreign.call\n{PIPELINE}",
    "value": f"pipetask: {{a: {{requestMemory: 'bpsEval(foreign.call, 1)'}}}}\n{PIPELINE}",
    "directory": f"submitPath: bpsEval(foreign.call, 1)\n{PIPELINE}",
    "generated": f"bpsGenerateConfig: foreign.call()\n{PIPELINE}",
}


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that leaves a file where it is imported."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "foreign.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'w').close()\n\ndef call(*_, **__):\n    return {{}}\n", "utf-8"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "foreign", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED)
def test_a_look_imports_nothing_that_a_file_names(text: str, tmp_path: Path) -> None:
    path = tmp_path / "stranger.yaml"
    path.write_text(text, "utf-8")
    linted = lint_file(path, now=0)
    assert [each.message for each in linted.findings if each.severity is Severity.ERROR] == []
    assert "code of" in linted.left_out[0] or "a function generates" in linted.left_out[0]
    with suppress(CodeRefusedError):  # a drawing needs no requests
        draw_configuration(path, progress=QuietProgress())
    explain_keys(read_draft_without_code(path), ["wmsServiceClass", "requestMemory"], current={}, given=())
    with suppress(LongshoreError):
        match_sites(path, with_probe=False)
    if "Service" in text and "convert" not in text and "auto" not in text:
        with pytest.raises(CodeRefusedError):
            ping(None, path=path)
    assert not (tmp_path / "imported").exists()


def test_to_check_a_site_imports_no_class_that_its_profile_names(tmp_path: Path) -> None:
    (tmp_path / "strange.yaml").write_text("service: foreign.Service\n", "utf-8")
    (problem,) = check_site("strange", [str(tmp_path)], now=0).problems
    assert problem.message.startswith("'foreign.Service' is code")
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("folder", ["sites", "cfg/longshore/sites"])
def test_a_class_that_a_profile_of_the_users_own_names_is_imported(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "cfg"))
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "strange.yaml").write_text("service: foreign.Service\n", "utf-8")
    is_own = folder != "sites"
    (problem,) = check_site("strange", [] if is_own else [folder], now=0).problems
    assert ("cannot be imported" if is_own else "is code") in problem.message
    with pytest.raises(UnknownServiceError if is_own else CodeRefusedError):
        ping(None, site="strange", site_path=[] if is_own else [folder])
    assert (tmp_path / "imported").exists() == is_own


def test_keys_of_a_site_that_only_foreign_code_knows_are_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "stranger.yaml"
    foreign = "computeSite: a\nsite: {a: {class: foreign.Service, cores: 4, provider: {x: 1}}, b: {walltime: 1}}\n"
    path.write_text(foreign + PIPELINE, "utf-8")
    linted = lint_file(path, now=0)
    assert linted.left_out[0] == "keys of 'site.a' that only code of 'foreign.Service' knows"
    assert [each.message for each in linted.findings] == ["nothing knows the key 'site.b.walltime'"]
    path.write_text(f"wmsServiceClass: foreign.Service\ncomputeSite: b\nsite: {{b: {{cores: 4}}}}\n{PIPELINE}", "utf-8")
    assert lint_file(path, now=0).findings == ()
    path.write_text(f"computeSite: b\nsite: {{b: {{cores: 4}}}}\n{PIPELINE}", "utf-8")
    assert [each.message for each in lint_file(path, now=0).findings] == ["nothing knows the key 'site.b.cores'"]


@pytest.mark.parametrize("look", [lint_file, draw_configuration])
def test_code_is_imported_for_who_asks_and_told(
    look: Callable[..., object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "stranger.yaml"
    path.write_text(NAMED["service"], "utf-8")
    more = {} if look is lint_file else {"progress": QuietProgress()}
    with caplog.at_level("INFO", "longshore"), suppress(LongshoreError):
        look(path, imports_code=True, **({"now": 0} if look is lint_file else more))
    assert (tmp_path / "imported").exists()
    assert f"imports 'foreign' from '{tmp_path}/modules/foreign.py' for 'foreign.Service' at {path}:1:18" in caplog.text


def test_a_service_that_the_user_names_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stranger.yaml"
    path.write_text(NAMED["service"], "utf-8")
    monkeypatch.setenv(SERVICE_VARIABLE, "foreign.Other")
    lint_file(path, now=0)
    assert not (tmp_path / "imported").exists()
    lint_file(path, Overrides({"wmsServiceClass": "foreign.Service"}), now=0)
    assert (tmp_path / "imported").exists()


def test_nothing_is_imported_from_the_current_directory(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    (folder / "below").mkdir(parents=True)
    (folder / "run.yaml").write_text(NAMED["service"], "utf-8")
    for place in (folder, folder / "below"):
        (place / "foreign.py").write_text("open('imported', 'w').close()\n", "utf-8")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = [sys.executable, "-m", "longshore", "config", "lint", "--import", "run.yaml"]

    def lint(path: str) -> str:
        done = subprocess.run(
            program, cwd=folder, env={**env, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        return done.stdout

    assert "No module named 'foreign'" in lint(":below:/nonexistent")
    assert not (folder / "imported").exists()
    lint(f":below:{folder / 'below'}")
    assert (folder / "imported").exists(), "an absolute entry counts"
