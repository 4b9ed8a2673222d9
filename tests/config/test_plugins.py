"""Packages add services and algorithms by entry points, and ship files beside their code."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path
from zipfile import ZipFile

import pytest

import longshore
from longshore.config.plugins import (
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
from longshore.services.local.service import LocalService
from longshore.services.slurm.service import SlurmService

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


@pytest.mark.parametrize(
    ("name", "text", "is_read"),
    [
        ("berth-1.0.dist-info", "[longshore.wms]\nberth = berth:Service\n", True),
        ("Berth.EGG-INFO", "[longshore.wms]\nberth = berth:Service\n", True),
        ("longshore_berth-1.0.dist-info", "[longshore.wms]\nberth = berth:Service\n", True),
        ("longshore-9.0.dist-info", "[longshore.wms]\nlocal = longshore.services.local.service:LocalService\n", False),
        ("berth-1.0.dist-info", "[console_scripts]\nberth = berth:main\n", False),
        ("berth-1.0.dist-info", None, False),
        ("berth", "[longshore.wms]\nberth = berth:Service\n", False),
    ],
)
def test_packages_are_described_only_where_one_registers_something(
    name: str, text: str | None, is_read: bool, tmp_path: Path
) -> None:
    info = tmp_path / name
    info.mkdir()
    if text is not None:
        (info / "entry_points.txt").write_text(text, "utf-8")
    assert search_of(tmp_path, tmp_path / "absent") == (["berth"] if is_read else [], is_read)


def test_packages_in_an_archive_are_found(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "berth.zip", "w") as archive:
        archive.writestr("berth-1.0.dist-info/METADATA", "Name: berth\nVersion: 1.0\n")
        archive.writestr("berth-1.0.dist-info/entry_points.txt", "[longshore.wms]\nberth = berth:Service\n")
    assert search_of(tmp_path / "berth.zip") == (["berth"], True)


def test_packages_that_only_a_finder_knows_are_found(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_spec(self, *_: object) -> None:
            """Find no module."""

        def find_distributions(self, _context: object) -> Iterator[PathDistribution]:
            yield PathDistribution(installed.parents[1] / "berth-1.0.dist-info")

    monkeypatch.setattr(sys, "path", [str(installed)])
    assert find_plugin(SERVICES, "berth") is None
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.setattr(sys, "path", [str(installed), "elsewhere"])
    assert find_plugin(SERVICES, "berth") == Plugin("berth", "berth.queue.service", "Outer.Inner")


def search_of(*places: Path) -> tuple[list[str], bool]:
    """The services of other packages at some places, and whether these packages were described by the library."""
    code = (
        "import sys\nfrom longshore.config.plugins import all_plugins, built_in_plugins\n"
        f"sys.path[:0] = {[str(place) for place in places]}\n"
        "found = all_plugins('longshore.wms').keys() - built_in_plugins('longshore.wms').keys()\n"
        "print(*found)\nprint('importlib.metadata' in sys.modules)"
    )
    names, is_described = output_of(code).splitlines()
    return names.split(), is_described == "True"


def output_of(code: str) -> str:
    """What a fresh Python prints."""
    line, env = [sys.executable, "-c", code], {"PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout


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
        "import sys\nfrom longshore.config.service_lookup import find_service\nfind_service('slurm')\n"
        "print('importlib.metadata' in sys.modules)"
    )
    assert output_of(code) == "False\n"


class Derived(LocalService):
    """A service of another package that says nothing of templates."""


def test_templates_are_named_without_their_suffix_and_inherited() -> None:
    assert set(template_texts(SlurmService)) == {"batch.sh", "engine.sh"}
    assert set(template_texts(LocalService)) == {"run-job"}
    assert template_texts(Derived) == template_texts(LocalService)
    assert template_texts(object) == {}
