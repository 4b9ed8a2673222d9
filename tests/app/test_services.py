"""Services are found by short name, by BPS's names and by the path of their class, and by nothing else."""

from __future__ import annotations

import pytest

from longshore.app.services import find_service, short_name
from longshore.errors import UnknownServiceError
from longshore.origin import Origin
from longshore.services.local.service import LocalService


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("local", "local"),
        ("lsst.ctrl.bps.htcondor.HTCondorService", "htcondor"),
        ("lsst.ctrl.bps.wms.htcondor.HTCondorService", "htcondor"),
        ("lsst.ctrl.bps.htcondor", "htcondor"),
        ("lsst.ctrl.bps.parsl.ParslService", "parsl"),
        ("lsst.ctrl.bps.panda.PanDAService", "panda"),
        ("lsst.ctrl.bps.htcondorish.Service", "lsst.ctrl.bps.htcondorish.Service"),
        ("my.own.Service", "my.own.Service"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize("name", ["local", "longshore.services.local.service.LocalService"])
def test_what_is_there(name: str) -> None:
    assert isinstance(find_service(name), LocalService)


@pytest.mark.parametrize(
    "name", ["", ".", "..a", "a.", "slrum", "panda", "no.such.Thing", "os.path", "longshore.services.local.service.No"]
)
def test_what_is_not(name: str) -> None:
    origin = Origin("run.yaml", 3, 1)
    with pytest.raises(UnknownServiceError) as caught:
        find_service(name, origin=origin)
    assert f"'{name}'" in caught.value.message
    assert caught.value.origin == origin


def test_how_to_add_one_is_said() -> None:
    with pytest.raises(UnknownServiceError) as caught:
        find_service("parsl")
    assert "there are: htcondor, local, slurm" in caught.value.message
    assert "'longshore.wms'" in caught.value.hint
