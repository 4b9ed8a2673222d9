"""Pages name the files that a reader saves, and decisions are questions."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = ROOT / "doc" / "decisions"
PAGES = sorted([*(ROOT / "doc").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_a_page_names_the_files_that_a_reader_saves() -> None:
    found = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        named = tuple(re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text)))
        blocks = re.findall(r"^```\w+ file=(\S+)$", text, re.MULTILINE)
        if unnamed := [block for block in blocks if not any(words.endswith(block) for words in named)]:
            found[str(page.relative_to(ROOT))] = unnamed
    assert not found, "Write 'Save this as' with the name: a reader does not see that of the block."


def test_a_decision_is_titled_and_named_by_its_question() -> None:
    index = (DECISIONS / "README.md").read_text("utf-8")
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        title = page.read_text("utf-8").partition("\n")[0]
        question = re.fullmatch(r"# (\d{4}): (.+)\?", title)
        assert question, title
        number, words = question.groups()
        assert page.stem == f"{number}-{re.sub(r'[^a-z0-9]+', '-', words.lower().replace(chr(39), ''))}"
        assert f"[{title.removeprefix('# ')}]({page.name})" in index


def test_decisions_are_listed_once_and_by_number() -> None:
    listed = re.findall(r"^\| \[.*?\]\((.+?)\) \|", (DECISIONS / "README.md").read_text("utf-8"), re.MULTILINE)
    assert listed == sorted(page.name for page in DECISIONS.glob("[0-9]*.md"))
