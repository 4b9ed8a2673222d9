"""Services by name: ours, BPS's spelling of them, those of installed packages, and any class by its path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from longshore.config.service_lookup import find_service, short_name
from longshore.errors import Origin, UnknownServiceError
from longshore.services.local.service import LocalService

MINE = """
from longshore.contract.service import WmsService
from longshore.services.local.service import LocalService
class Mine(LocalService):
    name = "mine"
class Half(WmsService):
    name = "half"
class Mute(WmsService):
    name = "mute"
    check = render = submit = ping = print
def function(): pass
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that offers services under short names."""
    (tmp_path / "their_services.py").write_text(MINE, "utf-8")
    (tmp_path / "broken_services.py").write_text("import no_such_module\n", "utf-8")
    info = tmp_path / "their_services-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-services\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(
        "[longshore.wms]\nmine = their_services:Mine\nhalf = their_services:Half\nlocal = their_services:Mine\n"
        "function = their_services:function\nbroken = broken_services:Mine\nabsent = their_services:Absent\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("their_services", "broken_services"):
        sys.modules.pop(name, None)
    return tmp_path


@pytest.mark.parametrize("name", ["local", "longshore.services.local.service.LocalService"])
def test_the_local_service(name: str) -> None:
    assert type(find_service(name)) is LocalService


def test_an_entry_point_adds_one_and_replaces_none(package: Path) -> None:
    assert find_service("mine").name == "mine"
    assert find_service("local").name == "local"


def test_a_class_is_found_by_its_path(package: Path) -> None:
    assert find_service("their_services.Mine").name == "mine"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("lsst.ctrl.bps.htcondor.HTCondorService", "htcondor"),
        ("lsst.ctrl.bps.htcondor.htcondor_service.HTCondorService", "htcondor"),
        ("lsst.ctrl.bps.wms.htcondor.htcondor_service.HTCondorService", "htcondor"),
        ("lsst.ctrl.bps.wms.htcondor.HTCondorService", "htcondor"),
        ("lsst.ctrl.bps.htcondor", "htcondor"),
        ("lsst.ctrl.bps.htcondorish.Service", "lsst.ctrl.bps.htcondorish.Service"),
        ("lsst.ctrl.bps.parsl.ParslService", "lsst.ctrl.bps.parsl.ParslService"),
        ("longshore.services.slurm.service.SlurmService", "slurm"),
        ("my.own.Service", "my.own.Service"),
        ("slurm", "slurm"),
    ],
)
def test_a_service_has_one_short_name(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize("name", ["lsst.ctrl.bps.parsl.ParslService", "lsst.ctrl.bps.panda.PanDAService"])
def test_a_plug_in_of_bps_needs_its_packages(name: str) -> None:
    with pytest.raises(UnknownServiceError) as raised:
        find_service(name, origin=Origin("run.yaml", 3, 5, "user"))
    assert str(raised.value).startswith(f"run.yaml:3:5: the service '{name}' cannot be imported: ")
    assert "pip install 'longshore[bps]'" in raised.value.hint


@pytest.mark.parametrize("name", ["pbs", ""])
def test_what_we_have_no_service_for_is_refused_with_what_there_is(package: Path, name: str) -> None:
    with pytest.raises(UnknownServiceError) as raised:
        find_service(name, origin=Origin("run.yaml", 3, 5, "user"))
    said = str(raised.value)
    assert said.startswith("run.yaml:3:5: there is no service ")
    assert "there are: " in said
    assert "mine" in said
    assert "local" in said
    assert "'longshore.wms'" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module.Service", "cannot be imported: No module named 'no_such_module'"),
        ("their_services.Absent", "cannot be imported: "),
        ("absent", "cannot be imported: "),
        ("broken", "cannot be imported: No module named 'no_such_module'"),
        ("broken_services.Mine", "cannot be imported: "),
        ("their_services.function", "is no service"),
        ("function", "is no service"),
        ("half", "is no whole service: it lacks 'check', "),
        ("their_services.Mute", "lacks 'events' or 'report'"),
        (".Service", "cannot be imported: "),
        ("..", "cannot be imported: "),
        ("a..b", "cannot be imported: "),
    ],
)
def test_what_is_no_service_is_refused(package: Path, name: str, said: str) -> None:
    with pytest.raises(UnknownServiceError) as raised:
        find_service(name)
    assert said in str(raised.value)
