"""The class by which BPS reaches Longshore, in a configuration of Longshore, and without BPS's packages."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

from longshore.config.layers import Overrides
from longshore.config.service_lookup import environment_service
from longshore.plan.configuration import read_draft

CLASS = "longshore.bps.LongshoreService"


def chosen(folder: Path, text: str, **options: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text, "utf-8")
    return read_draft(path, Overrides(options), now=0.0).service


def test_the_class_names_no_service_of_longshore_so_that_the_default_is_used(tmp_path: Path) -> None:
    assert chosen(tmp_path, f"wmsServiceClass: {CLASS}\n") == "local"
    assert chosen(tmp_path, "bps_cmdline: {}\n", wmsServiceClass=CLASS) == "local"


def test_the_site_chooses_the_service_of_a_file_with_the_class(tmp_path: Path) -> None:
    text = f"wmsServiceClass: {CLASS}\ncomputeSite: far\nsite: {{far: {{wmsServiceClass: slurm}}}}\n"
    assert chosen(tmp_path, text) == "slurm"


def test_the_class_in_the_environment_names_no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BPS_WMS_SERVICE_CLASS", CLASS)
    assert environment_service() == ""
    assert chosen(tmp_path, "requestCpus: 1\n") == "local"
    monkeypatch.setenv("BPS_WMS_SERVICE_CLASS", "slurm")
    assert environment_service() == "slurm"


def test_without_the_packages_of_bps_the_error_says_how_to_install_them() -> None:
    try:
        found = importlib.util.find_spec("lsst.ctrl.bps")
    except ModuleNotFoundError:
        found = None
    if found is not None:
        pytest.skip("the packages of BPS are installed")
    with pytest.raises(ImportError, match=r"pip install 'longshore\[bps\]'"):
        importlib.import_module("longshore.bps")
