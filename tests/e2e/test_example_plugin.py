"""The example plug-ins: one is what the how-to builds; installed as packages, they conform and run jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from tests.command import compiled_modules
from tests.pages import fences

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "doc" / "examples" / "minibatch"
OAR = ROOT / "doc" / "examples" / "oar"
PAGE = ROOT / "doc" / "how-to" / "add-a-service.md"
GIVEN = {
    "README.md",
    "longshore_minibatch/__init__.py",
    "longshore_minibatch/minibatch.py",
    "longshore_minibatch/kit/__init__.py",
}
"""Files of the example that the page does not show."""


def parts() -> dict[str, str]:
    """Text of each file that the page builds, without empty lines."""
    found: dict[str, str] = {}
    for fence in fences(PAGE):
        if fence.word == "part":
            found[fence.value] = found.get(fence.value, "") + solid(fence.text)
    return found


def solid(text: str) -> str:
    return "".join(f"{line}\n" for line in text.splitlines() if line)


def test_the_page_builds_the_example() -> None:
    files = [path for path in EXAMPLE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    shown = {path.relative_to(EXAMPLE).as_posix(): solid(path.read_text("utf-8")) for path in files}
    assert parts() == {name: text for name, text in shown.items() if name not in GIVEN}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of an environment in which Longshore and the examples are installed."""
    place = tmp_path_factory.mktemp("plugin")
    venv.create(place / "venv")
    base = {"base": str(place / "venv"), "platbase": str(place / "venv")}
    inside = Path(sysconfig.get_path("purelib", vars=base, scheme="venv"))
    paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")} | {str(ROOT / "python")}
    (inside / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(paths)), "utf-8")
    programs = place / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet", "--no-index"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", str(EXAMPLE), str(OAR)], cwd=place, check=True, timeout=280
    )
    longshore = programs / "longshore"
    longshore.write_text(f'#!/bin/sh\nexec "{programs / "python"}" -m longshore "$@"\n', "utf-8")
    longshore.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_"))},
        **compiled_modules(),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MINIBATCH_SPOOL": str(place / "spool"),
        "MINIBATCH_CPUS": "4",
    }


def typed(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Type a command that must succeed, in a home of its own, and return what it printed."""
    own = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=folder,
        env=environment | own,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.full
def test_what_the_page_says_to_try_works(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text((EXAMPLE / "run.yaml").read_text("utf-8"), "utf-8")
    (commands,) = (fence.text for fence in fences(PAGE) if fence.word == "try")
    printed = typed(commands, tmp_path, environment)
    assert "minibatch answers" in printed
    # The niceness of the tests themselves adds to the 7 of the page.
    assert f"hello Ada at niceness {min(os.nice(0) + 7, 19)}" in printed
    wrong = "longshore config lint run.yaml --set pipetask.greet.minibatch.nicee=3 || echo refused"
    assert "refused" in typed(wrong, tmp_path, environment)


@pytest.mark.full
@pytest.mark.parametrize(
    ("example", "name"),
    [
        (EXAMPLE, "TestMinibatchExecutor"),
        (EXAMPLE, "TestMinibatchService"),
        (EXAMPLE, "TestMinikitExecutor"),
        (EXAMPLE, "TestMinikitService"),
        (OAR, "test_oar"),
        (OAR, "TestOarExecutor"),
        (OAR, "TestOarService"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_the_examples_conform(example: Path, name: str, environment: dict[str, str], tmp_path: Path) -> None:
    options = f"-q -p no:cacheprovider --import-mode=importlib --rootdir {tmp_path} -c /dev/null"
    # The stand-ins of OAR are slow programs.
    workers = "-n 3" if example == OAR else ""
    printed = typed(f"python -m pytest {options} {workers} {example}/tests -k {name}", tmp_path, environment)
    assert " passed" in printed
    assert "skipped" not in printed
