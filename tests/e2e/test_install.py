"""What a user installs has all it needs: a wheel, and an editable install, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "doc" / "examples" / "montage" / "montage.yaml"

SHIPPED = (
    "etc/defaults.yaml",
    "etc/schema/config.json",
    "bin/longshore-job",
    "bin/longshore-stage",
    "bin/replay.py",
)


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def environment_without_longshore(place: Path) -> Path:
    """Make a virtual environment that has Longshore's dependencies and not Longshore; return its ``bin``."""
    venv.create(place)
    # A .pth file lends it the packages of the environment the tests run in, which takes no time and no network. Such a
    # file is not followed into the .pth files beside those packages, so an editable install of Longshore stays unseen.
    paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    inside = sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}, scheme="venv")
    (Path(inside) / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(paths)), "utf-8")
    return place / "bin"


def install(binaries: Path, *what: str | Path, cwd: Path) -> None:
    """Install with the pip of the environment the tests run in."""
    pip = [sys.executable, "-m", "pip", "--python", str(binaries / "python"), "install"]
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    run(*pip, *options, *what, cwd=cwd, env=plain_environment())


def plain_environment() -> dict[str, str]:
    """The variables of this process but those that lead Python to other packages."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}


def run_the_example(binaries: Path, scratch: Path) -> None:
    """Submit the example and read its report, with the installed command."""
    scratch.mkdir()
    environment = plain_environment()
    longshore = binaries / "longshore"
    run(longshore, "submit", EXAMPLE, "--wait", "--set", "replay.timeScale=0", cwd=scratch, env=environment)
    report = json.loads(run(longshore, "report", "--id", "@last", "--json", cwd=scratch, env=environment))
    (found,) = report["runs"]
    assert found["state"] == "SUCCEEDED"
    assert found["counts"]["SUCCEEDED"] == found["expected"] > 0
    assert len(found["jobs"]) == found["expected"]
    assert Path(found["path"]).is_relative_to(scratch / "submit")


def place_of_package(binaries: Path, cwd: Path) -> Path:
    printed = run(
        binaries / "python", "-c", "import longshore; print(longshore.__file__)", cwd=cwd, env=plain_environment()
    )
    return Path(printed.strip()).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_a_wheel_holds_what_is_needed_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    wanted = {f"longshore/_shipped/{name}" for name in SHIPPED}
    package = [path for path in (ROOT / "python" / "longshore").rglob("*.*") if path.suffix != ".pyc"]
    sources = {path.relative_to(ROOT / "python").as_posix() for path in package}
    assert {
        "longshore/py.typed",
        "longshore/entry_points.txt",
        "longshore/services/slurm/templates/batch.sh.j2",
    } < sources
    assert not (wanted | sources) - modes.keys()
    assert modes["longshore/_shipped/bin/longshore-job"] & 0o111, "the job wrapper is a program"
    assert {name.split("/")[0].rpartition(".")[2] for name in modes} == {"longshore", "dist-info"}
    assert {name for name in modes if "/_shipped/bin/" in name} == {
        "longshore/_shipped/bin/longshore-job",
        "longshore/_shipped/bin/longshore-stage",
        "longshore/_shipped/bin/replay.py",
    }


def test_a_wheel_in_a_clean_environment_runs_the_example(wheel: Path, tmp_path: Path) -> None:
    binaries = environment_without_longshore(tmp_path / "venv")
    install(binaries, wheel, cwd=tmp_path)
    package = place_of_package(binaries, tmp_path)
    assert package.is_relative_to(tmp_path)
    assert not [name for name in SHIPPED if not (package / "_shipped" / name).is_file()]
    run_the_example(binaries, tmp_path / "work")


def test_an_editable_install_runs_the_example(tmp_path: Path) -> None:
    binaries = environment_without_longshore(tmp_path / "venv")
    install(binaries, "-e", ROOT, cwd=tmp_path)
    assert place_of_package(binaries, tmp_path) == ROOT / "python" / "longshore"
    assert not list((tmp_path / "venv").rglob("_shipped")), "a copy that nobody edits"
    run_the_example(binaries, tmp_path / "work")
