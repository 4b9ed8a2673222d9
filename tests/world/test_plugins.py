"""Packages add services and algorithms by entry points, and ship files beside their code."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import longshore
from longshore.services.local.service import LocalService
from longshore.services.slurm.service import SlurmService
from longshore.world.plugins import (
    ADAPTERS,
    CLUSTERING,
    SERVICES,
    SITE_GRAPHS,
    SITE_MATCH,
    SITE_SELECTION,
    Plugin,
    all_plugins,
    built_in_plugins,
    find_plugin,
    package_folder,
    template_texts,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(longshore.__file__).parent


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that must not be imported, and its entry points."""
    package = tmp_path / "berth" / "queue"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("raise AssertionError\n", "utf-8")
    info = tmp_path / "berth-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(
        "[longshore.wms]\nberth = berth.queue.service:Outer.Inner [extra]\nlocal = berth.queue.service:Other\n"
        "[console_scripts]\nberth = berth.main:main\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return package


GROUPS = [ADAPTERS, SERVICES, CLUSTERING, SITE_GRAPHS, SITE_MATCH, SITE_SELECTION]


@pytest.mark.parametrize("group", GROUPS)
def test_the_built_in_entries_are_those_of_the_project_file(group: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    assert {name: f"{each.module}:{each.attribute}" for name, each in built_in_plugins(group).items()} == project[group]
    assert {each for each in project if each.startswith("longshore.")} == set(GROUPS)
    # Adapters need packages of other systems.
    for plugin in () if group == ADAPTERS else built_in_plugins(group).values():
        assert callable(plugin.load())


def test_an_installed_package_adds_entries_and_replaces_none(installed: Path) -> None:
    found = find_plugin(SERVICES, "berth")
    assert found == Plugin("berth", "berth.queue.service", "Outer.Inner")
    assert all_plugins(SERVICES)["local"] == built_in_plugins(SERVICES)["local"]
    assert find_plugin(SERVICES, "slurm") == built_in_plugins(SERVICES)["slurm"]
    assert find_plugin(SERVICES, "absent") is None


def test_the_folder_of_a_package_is_found_without_an_import(installed: Path) -> None:
    assert package_folder("berth.queue.service") == installed
    assert package_folder("berth.queue") == installed
    assert package_folder("berth.service") == installed.parent
    assert package_folder("longshore.services.slurm.service") == PACKAGE / "services" / "slurm"


@pytest.mark.parametrize("module", ["", ".", "no_such_package.module", "textwrap", "__main__"])
def test_a_module_outside_of_packages_has_no_folder(module: str) -> None:
    assert package_folder(module) is None


def test_a_built_in_entry_is_found_without_a_search_of_installed_packages() -> None:
    code = (
        "import sys\nfrom longshore.app.configure.service_lookup import find_service\nfind_service('slurm')\n"
        "print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


class Derived(LocalService):
    """A service of another package that says nothing of templates."""


def test_templates_are_named_without_their_suffix_and_inherited() -> None:
    assert set(template_texts(SlurmService)) == {"batch.sh", "engine.sh"}
    assert set(template_texts(LocalService)) == {"run-job"}
    assert template_texts(Derived) == template_texts(LocalService)
    assert template_texts(object) == {}
