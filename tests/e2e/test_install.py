"""What a user installs has all it needs: a wheel, and an editable install, each in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.figures import FIGURE

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "doc" / "examples" / "montage" / "montage.yaml"

SHIPPED = (
    "etc/defaults.yaml",
    "etc/schema/report.json",
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


def requirements() -> set[str]:
    """Names of the packages that a plain install brings, and of those that they need."""
    found: set[str] = set()
    open_names = ["longshore"]
    while open_names:
        for line in distribution(open_names.pop()).requires or ():
            name, _, condition = line.partition(";")
            name = re.split(r"[^\w.-]", name.strip())[0].lower()
            if "extra" not in condition and "python_version" not in condition and name not in found:
                found.add(name)
                open_names.append(name)
    return found


def size_mb(name: str) -> float:
    files = distribution(name).files or ()
    paths = [Path(str(file.locate())) for file in files if ".." not in file.parts and "__pycache__" not in file.parts]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def test_the_sizes_of_an_install_are_reported(wheel: Path, record_property: Callable[[str, object], None]) -> None:
    sizes = {name: size_mb(name) for name in requirements()}
    assert {"click", "msgspec", "rich", "pygments"} <= sizes.keys()
    assert all(sizes.values()), "a package without files was not found"
    listed = ", ".join(f"{name} {size:.1f}" for name, size in sorted(sizes.items(), key=lambda item: -item[1]))
    record_property(FIGURE, f"wheel: {wheel.stat().st_size / 1e6:.1f} MB")
    record_property(FIGURE, f"what it needs, in MB: {sum(sizes.values()):.1f} ({listed})")


IMPORT = """
import sys, time
before = set(sys.modules)
began = time.perf_counter()
import longshore
took = time.perf_counter() - began
print(took, *sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_importing_the_package_imports_no_other_package(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    environment = plain_environment() | {"PYTHONPATH": str(ROOT / "python")}
    took = []
    for _ in range(5):
        seconds, *modules = run(sys.executable, "-c", IMPORT, cwd=tmp_path, env=environment).split()
        assert {name for name in modules if name not in sys.stdlib_module_names} == {"longshore"}
        took.append(float(seconds))
    record_property(FIGURE, f"import longshore: {statistics.median(took) * 1000:.1f} ms, median of {len(took)}")


@pytest.mark.bulk
@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_pipx_and_uv_install_the_wheel(tool: str, wheel: Path, tmp_path: Path) -> None:
    """The real programs, in folders of their own; they fetch what the wheel needs from the index of this machine."""
    venv.create(tmp_path / "tool", with_pip=True)
    fetched = subprocess.run(
        [tmp_path / "tool" / "bin" / "pip", "install", "--quiet", tool], capture_output=True, check=False, timeout=280
    )
    if fetched.returncode:
        pytest.skip(f"no index has {tool}")
    folders = {"PIPX_HOME": "home", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}
    folders |= {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "UV_CACHE_DIR": "cache"}
    environment = plain_environment() | {name: str(tmp_path / folder) for name, folder in folders.items()}
    words = ["tool", "install"] if tool == "uv" else ["install"]
    run(tmp_path / "tool" / "bin" / tool, *words, wheel, cwd=tmp_path, env=environment)
    assert not place_is_borrowed(tmp_path)
    run_the_example(tmp_path / "bin", tmp_path / "work")


def place_is_borrowed(place: Path) -> bool:
    """Whether an installed program leads to a file outside of a folder."""
    return not (place / "bin" / "longshore").resolve().is_relative_to(place)
