"""The documentation tells the truth: its commands run as printed, its links lead somewhere, its lists are complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from longshore.errors import LongshoreError
from longshore.model.state import EXIT_STATUS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "doc").rglob("*.md"), ROOT / "README.md"])
_FENCE = re.compile(r"^```(\w+)?(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)")


def runnable() -> list[Path]:
    """Pages that give files to save: the commands between them are meant to be typed."""
    return [page for page in PAGES if any(fence[2] == "file" for fence in _FENCE.finditer(page.read_text("utf-8")))]


@pytest.mark.parametrize("page", runnable(), ids=lambda page: page.stem)
def test_what_a_page_says_to_type_works(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "longshore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m longshore "$@"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    for _, option, value, body in (fence.groups() for fence in _FENCE.finditer(page.read_text("utf-8"))):
        if option == "file":
            (tmp_path / value).write_text(body, "utf-8")
    commands = [fence for fence in _FENCE.finditer(page.read_text("utf-8")) if fence[1] == "sh"]
    assert commands
    for fence in commands:
        expected = int(fence[3]) if fence[2] == "exit" else 0
        done = subprocess.run(
            ["/bin/sh", "-ec", fence[4]], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == expected, f"{fence[4]}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text("utf-8")) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_every_exit_status_is_explained() -> None:
    page = (ROOT / "doc" / "reference" / "exit-status.md").read_text("utf-8")
    explained = {int(number) for row in re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE) for number in row.split(",")}
    kinds = [LongshoreError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    assert {kind.exit_status for kind in kinds} | set(EXIT_STATUS.values()) <= explained
