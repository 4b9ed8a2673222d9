"""The documentation tells the truth: its commands run as printed, its links lead somewhere, its lists are complete."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.house import htcondor_reference, schemas, slurm_reference
from tests.house.reference import PAGE, page
from tests.pages import fences, program, typed

from longshore.cli.options import INTERRUPTED
from longshore.errors import LongshoreError
from longshore.model.run.state import STATE_EXIT_STATUS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "doc" / "examples"
PAGES = sorted([*(ROOT / "doc").rglob("*.md"), ROOT / "README.md"])
_LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)")


def runnable() -> list[Path]:
    """Pages whose commands are meant to be typed: examples, and those that give files to save."""
    meant = [page for page in PAGES if EXAMPLES in page.parents or files(page)]
    return [page for page in meant if any(fence.kind == "sh" for fence in fences(page))]


def files(page: Path) -> list[tuple[str, str]]:
    """Text and name of each file that a page says to save."""
    return [(fence.text, fence.value) for fence in fences(page) if fence.word == "file"]


@pytest.mark.full
@pytest.mark.parametrize("page", runnable(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_says_to_type_works(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path)}:{Path(sys.executable).parent}:/usr/bin:/bin")
    folder = tmp_path / "here"
    if EXAMPLES in page.parents:
        shutil.copytree(page.parent, folder)
    else:
        folder.mkdir()
    for text, name in files(page):
        (folder / name).write_text(text, "utf-8")
    for fence in fences(page):
        if fence.kind == "sh":
            typed(fence.text, folder, status=int(fence.value) if fence.word == "exit" else 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text("utf-8")) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def exit_rows(table: str) -> dict[int, str]:
    """The rest of the row per exit status of a table."""
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", table, re.MULTILINE)
    return {int(number): rest for numbers, rest in rows for number in numbers.split(",")}


def test_every_exit_status_is_explained_and_no_other() -> None:
    page = (ROOT / "doc" / "reference" / "exit-status.md").read_text("utf-8")
    states, errors = map(exit_rows, page.split("Every other command"))
    assert states.keys() == set(STATE_EXIT_STATUS.values())
    for state, number in STATE_EXIT_STATUS.items():
        assert state in states[number].partition("|")[0]
    kinds = [LongshoreError]
    for kind in kinds:
        kinds.extend(each for each in kind.__subclasses__() if each.__module__ == LongshoreError.__module__)
    codes = {kind.code: kind.exit_status for kind in kinds} | {"interrupted": INTERRUPTED}
    assert errors.keys() == {0, *codes.values()}
    told = {code: number for number, row in errors.items() for code in re.findall(r"`(\w+)`", row.rpartition("|")[2])}
    assert told == codes


def test_the_reference_of_the_configuration_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m tests.house.reference"


def test_the_reference_of_htcondor_is_up_to_date() -> None:
    assert htcondor_reference.PAGE.read_text("utf-8") == htcondor_reference.page(), (
        "run: python -m tests.house.htcondor_reference"
    )


def test_the_reference_of_slurm_is_up_to_date() -> None:
    assert slurm_reference.PAGE.read_text("utf-8") == slurm_reference.page(), (
        "run: python -m tests.house.slurm_reference"
    )


def test_published_schemas_are_those_of_the_records() -> None:
    published = {path.stem: path.read_text("utf-8") for path in schemas.FOLDER.glob("*.json")}
    made = {kind: schemas.text(schema) for kind, schema in schemas.schemas().items()}
    assert published.keys() - made.keys() == {"config", "site", "graph_file"}, "schemas of input files"
    assert {kind: published.get(kind) for kind in made} == made, "run: python -m tests.house.schemas"
