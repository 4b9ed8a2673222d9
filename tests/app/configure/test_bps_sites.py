"""A file for BPS may name a site that nothing describes, or none; other files may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.app.configure.resolved_run import resolve_run
from longshore.app.progress import SilentProgress
from longshore.app.submit.lint_file import lint_file
from longshore.config.lint.schema_check import Severity
from longshore.errors import ConfigError

HTCONDOR = "wmsServiceClass: lsst.ctrl.bps.htcondor.HTCondorService\n"
LSST = "pipelineYaml: '${DRP_PIPE_DIR}/pipelines/DRP.yaml'\nbutlerConfig: /repo\n"
OWN = "pipeline: {tasks: {one: {command: 'true'}}}\n"


def said(path: Path, text: str) -> list[tuple[bool, str]]:
    """Return what lint says about sites: whether it is an error, and the message."""
    path.write_text(text, "utf-8")
    found = lint_file(path, now=0).findings
    return [(each.severity is Severity.ERROR, each.message) for each in found if "ite" in each.message]


@pytest.mark.parametrize("payload", [LSST, HTCONDOR + OWN], ids=["LSST's payload", "BPS's service"])
def test_a_site_without_description(tmp_path: Path, payload: str) -> None:
    message = "nothing describes the site 's3df', and jobs run there without settings of a site"
    assert said(tmp_path / "run.yaml", f"computeSite: s3df\n{payload}") == [(False, message)]


def test_a_site_of_a_label_without_description(tmp_path: Path) -> None:
    message = "nothing describes the site 'far', and jobs run there without settings of a site"
    text = f"{HTCONDOR}{OWN}pipetask: {{one: {{computeSite: far}}}}\n"
    assert said(tmp_path / "run.yaml", text) == [(False, message)]


def test_a_described_site(tmp_path: Path) -> None:
    assert said(tmp_path / "run.yaml", f"computeSite: s3df\n{HTCONDOR}{OWN}site: {{s3df: {{queue: q}}}}\n") == []


def test_a_map_names_no_site(tmp_path: Path) -> None:
    message = "'computeSite' is a map, which names no site"
    assert said(tmp_path / "run.yaml", f"{HTCONDOR}{OWN}computeSite: {{DRP: s3df}}\n") == [(False, message)]
    assert said(tmp_path / "run.yaml", f"{OWN}computeSite: {{DRP: s3df}}\n") == [(True, message)]


@pytest.mark.parametrize("site", ["", "computeSite: s3df\n"])
def test_a_run_at_such_a_site(tmp_path: Path, site: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"{site}{HTCONDOR}{OWN}submitPath: {tmp_path}/run\n", "utf-8")
    run = resolve_run(path, now=0, progress=SilentProgress())
    assert run.configuration.site == ("s3df" if site else "")
    assert run.configuration.resolved_site.settings == {}
    assert run.configuration.resolved_site.limits == {}


def test_another_file_needs_a_site_that_is_described(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"computeSite: s3df\n{OWN}", "utf-8")
    with pytest.raises(ConfigError, match="there is no site 's3df'"):
        resolve_run(path, now=0, progress=SilentProgress())
    path.write_text(f"wmsServiceClass: htcondor\n{OWN}", "utf-8")
    with pytest.raises(ConfigError, match="'computeSite' must name the site of 'htcondor'"):
        resolve_run(path, now=0, progress=SilentProgress())
