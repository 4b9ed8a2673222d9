"""A file for BPS may name a site that nothing describes, or none, and no service; other files have Longshore's."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.config.layers import Overrides
from longshore.config.schema import Severity
from longshore.contract.service import PingReport
from longshore.errors import ConfigError, ServiceError
from longshore.plan.configuration import read_draft
from longshore.plan.lint_file import lint_file
from longshore.plan.ping import ping
from longshore.plan.resolved_run import resolve_run
from longshore.progress import QuietProgress
from longshore.services.htcondor.service import HTCondorService

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
    assert said(tmp_path / "run.yaml", f"computeSite: s3df\n{HTCONDOR}{OWN}site: {{s3df: {{priority: 3}}}}\n") == []


def test_a_map_names_no_site(tmp_path: Path) -> None:
    message = "'computeSite' is a map, which names no site"
    assert said(tmp_path / "run.yaml", f"{HTCONDOR}{OWN}computeSite: {{DRP: s3df}}\n") == [(False, message)]
    assert said(tmp_path / "run.yaml", f"{OWN}computeSite: {{DRP: s3df}}\n") == [(True, message)]


@pytest.mark.parametrize("site", ["", "computeSite: s3df\n"])
def test_a_run_at_such_a_site(tmp_path: Path, site: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"{site}{HTCONDOR}{OWN}submitPath: {tmp_path}/run\n", "utf-8")
    run = resolve_run(path, now=0, progress=QuietProgress())
    assert run.configuration.site == ("s3df" if site else "")
    assert run.configuration.resolved_site.settings == {}
    assert run.configuration.resolved_site.limits == {}


def test_another_file_needs_a_site_that_is_described(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"computeSite: s3df\n{OWN}", "utf-8")
    with pytest.raises(ConfigError, match="there is no site 's3df'"):
        resolve_run(path, now=0, progress=QuietProgress())
    path.write_text(f"wmsServiceClass: htcondor\n{OWN}", "utf-8")
    with pytest.raises(ConfigError, match="'computeSite' must name the site of 'htcondor'"):
        resolve_run(path, now=0, progress=QuietProgress())


# ---------------------------------------------------------------------------------------------------- without a service

PAYLOADS = {
    "a pipeline of LSST's": (LSST, "htcondor"),
    "a quantum graph": ("qgraphFile: g.qg\n", "htcondor"),
    "a command that makes one": ("createQuantumGraph: make {qgraphFile}\n", "htcondor"),
    "a key without a value": (f"{LSST}wmsServiceClass:\n", "htcondor"),
    "a pipeline of commands": (OWN, "local"),
    "a job of one's own": ("customJob: {executable: /bin/true, arguments: ''}\n", "local"),
    "Longshore as BPS's plug-in": (f"{LSST}wmsServiceClass: longshore.bps.LongshoreService\n", "local"),
}


@pytest.mark.parametrize(("text", "service"), PAYLOADS.values(), ids=PAYLOADS)
def test_the_service_of_a_file_that_names_none(tmp_path: Path, text: str, service: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text, "utf-8")
    draft = read_draft(path, now=0)
    assert (draft.service, draft.has_service_of_bps) == (service, service == "htcondor")
    assert draft.site == ("local" if service == "local" else "")


def _name_for_user(home: Path) -> None:
    file = home / ".config" / "longshore" / "longshore.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("wmsServiceClass: slurm\n", "utf-8")


@pytest.mark.parametrize(
    "by", ["file", "payload", "option", "environment", "BPS's variable", "user", "site", "section"]
)
def test_who_may_name_a_service(
    by: str, tmp_path: Path, own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, options = LSST, {}
    match by:
        case "file":
            text += "wmsServiceClass: slurm\n"
        case "payload":
            text += "payload: {wmsServiceClass: slurm}\n"
        case "option":
            options = {"wmsServiceClass": "slurm"}
        case "environment":
            monkeypatch.setenv("LONGSHORE_WMS_SERVICE_CLASS", "slurm")
        case "BPS's variable":
            monkeypatch.setenv("BPS_WMS_SERVICE_CLASS", "slurm")
        case "user":
            _name_for_user(own_environment)
        case "site":
            (tmp_path / "far.yaml").write_text("service: slurm\n", "utf-8")
            text += f"sitePath: {tmp_path}\ncomputeSite: far\n"
        case _:
            text += "computeSite: far\nsite: {far: {wmsServiceClass: slurm}}\n"
    path = tmp_path / "run.yaml"
    path.write_text(text, "utf-8")
    draft = read_draft(path, Overrides(options), now=0)
    assert (draft.service, draft.has_service_of_bps) == ("slurm", False)


def test_a_site_that_names_no_service_has_that_of_bps(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"{LSST}computeSite: pool\nsite: {{pool: {{profile: {{condor: {{+Walltime: 1}}}}}}}}\n", "utf-8")
    assert read_draft(path, now=0).service == "htcondor"


def test_a_machine_of_ones_own_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"{LSST}submitPath: {tmp_path}/run\n", "utf-8")
    for options in ({"computeSite": "local"}, {"wmsServiceClass": "local"}):
        run = resolve_run(path, Overrides(options), now=0, progress=QuietProgress())
        assert (run.configuration.service, run.configuration.site) == ("local", "local")


def test_without_a_pool_the_ways_on_are_told(
    tmp_path: Path, own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(LSST, "utf-8")
    # The bindings of this process may know a pool from an earlier test.
    answer = PingReport(service="htcondor", ok=False, message="no pool answers")
    monkeypatch.setattr(HTCondorService, "ping", lambda _self, _ctx: answer)
    with pytest.raises(
        ServiceError, match="names no 'wmsServiceClass', which means 'htcondor', as with BPS"
    ) as refused:
        resolve_run(path, now=0, progress=QuietProgress())
    assert refused.value.message.endswith("cannot be used here: no pool answers")
    for way in ("--wms-service-class local", f"{own_environment}/.config/longshore/longshore.yaml", "--compute-site"):
        assert way in refused.value.hint
    run = resolve_run(path, now=0, progress=QuietProgress(), with_probe=False)
    assert run.configuration.service == "htcondor", "a look asks nobody"


def test_with_a_pool_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"{LSST}submitPath: {tmp_path}/run\n", "utf-8")
    answer = PingReport(service="htcondor", ok=True, message="a pool")
    monkeypatch.setattr(HTCondorService, "ping", lambda _self, _ctx: answer)
    run = resolve_run(path, now=0, progress=QuietProgress())
    assert (run.configuration.service, run.context.probe) == ("htcondor", answer)


def test_a_look_at_a_file_tells_which_service_it_has(tmp_path: Path, own_environment: Path) -> None:
    path = tmp_path / "run.yaml"

    def told(text: str) -> list[str]:
        path.write_text(text, "utf-8")
        found = [each for each in lint_file(path, now=0).findings if "wmsServiceClass" in each.message]
        assert all(each.severity is Severity.NOTE for each in found)
        return [f"{each.origin.line}: {each.message}" for each in found]

    note = "no 'wmsServiceClass' is named: the run belongs to HTCondor, as with BPS"
    assert told(LSST) == [f"1: {note}"]
    assert told(f"{LSST}computeSite: local\n") == []
    assert told(f"{LSST}wmsServiceClass: local\n") == []
    _name_for_user(own_environment)
    assert told(LSST) == []


def test_a_question_without_a_file_goes_to_the_users_service(
    own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ping(None).service == "local"
    _name_for_user(own_environment)
    assert ping(None).service == "slurm"
    monkeypatch.setenv("BPS_WMS_SERVICE_CLASS", "local")
    assert ping(None).service == "local"
