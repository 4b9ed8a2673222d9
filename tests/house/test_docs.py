"""The documentation tells the truth: its commands run as printed, its links lead somewhere, its lists are complete."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.generate.__main__ import generated_files
from tests.generate.schemas import FOLDER
from tests.house.source_trees import MODULES, nodes_of
from tests.pages import Fence, fences, program, typed

from longshore.cli.interrupts import INTERRUPTED
from longshore.config import plugins
from longshore.errors import LongshoreError
from longshore.model.states import PAUSED_EXIT_STATUS, STATE_EXIT_STATUS, Cause, JobState

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "doc" / "examples"
PAGES = sorted([*(ROOT / "doc").rglob("*.md"), ROOT / "README.md"])
_LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)")
_DOTTED = re.compile(r"(?<![\w./-])longshore(?:\.[A-Za-z_]\w*)+(?![\w/-])")
_PATH = re.compile(r"(?<![\w./-])(?:python|tests|etc|bin|config|doc)/[\w./-]*\w")
_CAMEL = re.compile(r"`((?:[A-Z][a-z0-9]+)+)(?:\.\w+)*(?:\(.*?\))?`")
_LOGGERS = {"longshore.slurm"}
_FOREIGN = {
    *("LongshoreJob", "LongshoreLife", "LongshoreName", "LongshoreRun", "NumHolds", "NumHoldsByReason"),
    *("JobEventLog", "MemoryProvisioned", "NumJobCompletions", "MaxArraySize", "CoreSpecCount", "MemSpecLimit"),
    *("BaseWmsService", "WmsRunReport", "None"),
}
"""Names of HTCondor, Slurm, BPS and Python."""


_RUN_ELSEWHERE = {
    "README.md": "needs an installation",
    "index.md": "run by each build of the site, and so by test_site",
    "use-htcondor.md": "needs a pool; live tests run most of its commands",
    "run-lsst-pipelines.md": "needs LSST's software",
}
"""Pages whose commands are not run here, and why."""


def runnable() -> list[Path]:
    """Pages whose commands run on any machine: all that have commands without a mark of other tests."""
    pages = [page for page in PAGES if page.name not in _RUN_ELSEWHERE or EXAMPLES in page.parents]
    return [page for page in pages if any(map(is_typed, fences(page)))]


def is_typed(fence: Fence) -> bool:
    """Whether a piece of code is commands that run on any machine."""
    return fence.kind == "sh" and fence.word in {"", "exit"}


def files(page: Path) -> list[tuple[str, str]]:
    """Text and name of each file that a page says to save."""
    return [(fence.text, fence.value) for fence in fences(page) if fence.word == "file"]


def in_one_terminal(text: str, folder: Path) -> str:
    """Commands with the variables that earlier ones of the page exported; a file in a folder keeps these."""
    kept = folder / "exported"
    kept.touch()
    return f". {kept}\ntrap 'export -p > {kept}' EXIT\n{text}"


@pytest.mark.full
@pytest.mark.parametrize("page", runnable(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path)}:{Path(sys.executable).parent}:/usr/bin:/bin")
    folder = tmp_path / "here"
    if EXAMPLES in page.parents:
        shutil.copytree(page.parent, folder)
    else:
        folder.mkdir()
    for text, name in files(page):
        (folder / name).write_text(text, "utf-8")
    for fence in fences(page):
        if is_typed(fence):
            typed(in_one_terminal(fence.text, tmp_path), folder, status=int(fence.value) if fence.word == "exit" else 0)


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in _LINK.findall(page.read_text("utf-8")) if "://" not in link]
    missing = [f"{page.relative_to(ROOT)}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert not missing


def entry_point_groups() -> set[str]:
    """Names of the groups in which plug-ins register."""
    return {value for name, value in vars(plugins).items() if name.isupper() and isinstance(value, str)}


@cache
def classes() -> set[str]:
    """Names of all classes of the package, and of the type aliases beside them."""
    nodes = [node for path in MODULES for node in nodes_of(path)]
    aliases = {
        node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)} | aliases


def resolves(dotted: str) -> bool:
    """Whether a dotted name is that of a module, or of something in a module."""
    module, _, attribute = dotted.rpartition(".")
    if dotted.startswith(("longshore.bps.", "longshore.services.bps.")):
        # Imported with BPS's packages alone.
        return attribute in classes()
    if find_spec(module) is None:
        return bool(module) and "." in module and resolves(module)
    return find_spec(dotted) is not None if not hasattr(import_module(module), attribute) else True


def test_names_of_the_package_exist() -> None:
    known = classes() | _FOREIGN
    missing: dict[str, set[str]] = {}
    for each in PAGES:
        text = each.read_text("utf-8")
        dotted = set(_DOTTED.findall(text)) - entry_point_groups() - _LOGGERS
        names = {name for name in dotted if not resolves(name)} | set(_CAMEL.findall(text)) - known
        missing |= {str(each.relative_to(ROOT)): names} if names else {}
    assert not missing, "pages name classes or modules that do not exist (any more)"


def test_paths_of_the_repository_exist() -> None:
    prose = {each: "".join(re.findall(r"`[^`\n]+`", each.read_text("utf-8"))) for each in PAGES}
    missing = [
        f"{each.relative_to(ROOT)}: {path}"
        for each, text in prose.items()
        for path in _PATH.findall(text)
        if not (ROOT / path).exists()
    ]
    assert not missing


def exit_rows(table: str) -> dict[int, str]:
    """The rest of the row per exit status of a table."""
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", table, re.MULTILINE)
    return {int(number): rest for numbers, rest in rows for number in numbers.split(",")}


def test_every_exit_status_is_explained_and_no_other() -> None:
    page = (ROOT / "doc" / "reference" / "exit-status.md").read_text("utf-8")
    states, errors = map(exit_rows, page.split("Every other command"))
    assert states.keys() == {*STATE_EXIT_STATUS.values(), PAUSED_EXIT_STATUS}
    for state, number in STATE_EXIT_STATUS.items():
        assert state in states[number].partition("|")[0]
    kinds = [LongshoreError]
    for kind in kinds:
        kinds.extend(each for each in kind.__subclasses__() if each.__module__ == LongshoreError.__module__)
    codes = {kind.code: kind.exit_status for kind in kinds} | {"interrupted": INTERRUPTED}
    assert errors.keys() == {0, *codes.values()}
    told = {code: number for number, row in errors.items() for code in re.findall(r"`(\w+)`", row.rpartition("|")[2])}
    assert told == codes


def test_every_state_and_cause_is_explained_and_no_other() -> None:
    page = (ROOT / "doc" / "reference" / "states-and-causes.md").read_text("utf-8")
    states, causes = (re.findall(r"^\| `(\w+)`", part, re.MULTILINE) for part in page.split("## Causes"))
    assert sorted(states) == sorted(JobState)
    assert sorted(causes) == sorted(Cause)


def test_generated_files_are_up_to_date() -> None:
    made = generated_files()
    assert [path for path, text in made.items() if path.read_text("utf-8") != text] == [], (
        "run: python -m tests.generate"
    )
    others = {path.stem for path in FOLDER.glob("*.json")} - {path.stem for path in made}
    assert others == {"graph_file"}, "the schema of an input file"
