"""Pages are read once: phrases that need a second reading do not occur, and decisions are questions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = ROOT / "doc" / "decisions"
PAGES = sorted([*(ROOT / "doc").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
REASONS = {
    r"who(ever|mever|soever)|somebody|nobody|anybody": "name the user, the reader, the process",
    r"(is|are|was|were|be|what is) told|told (of|about|apart)": "reports, shows, records: name what does it",
    r"(of|for|by) (which|whom)": "begin a new sentence with the noun",
    r"as far as|all that|what there is": "name the amount or the things",
    r"(is|are) said( of)?|is let|lets? go|amid|spoken to": "use the verb of the glossary",
    r"tried again": "retried",
    r"(hand|hands|handed|handing) (it |them )?over": "submits, dispatches: see the glossary",
    r"orders? (to|of) (a|the|our) (live )?(run|engine)": "intervention",
}
"""Phrases that pages avoid, and the words to use instead."""
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|`[^`]*`", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_avoid_phrases_that_need_a_second_reading(page: Path) -> None:
    prose = _CODE.sub("", page.read_text("utf-8"))
    found = {
        match.group(): reason
        for phrase, reason in REASONS.items()
        for match in re.finditer(rf"\b({phrase})\b", " ".join(prose.split()), re.IGNORECASE)
    }
    assert not found


def test_a_page_names_the_files_that_a_reader_saves() -> None:
    found = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        named = tuple(re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text)))
        blocks = re.findall(r"^```\w+ file=(\S+)$", text, re.MULTILINE)
        if unnamed := [block for block in blocks if not any(words.endswith(block) for words in named)]:
            found[str(page.relative_to(ROOT))] = unnamed
    assert not found, "Write 'Save this as' with the name: a reader does not see that of the block."


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("[0-9]*.md")), ids=lambda page: page.stem)
def test_a_decision_is_titled_and_named_by_its_question(page: Path) -> None:
    title = page.read_text("utf-8").partition("\n")[0]
    question = re.fullmatch(r"# (\d{4}): (.+)\?", title)
    assert question, title
    number, words = question.groups()
    assert page.stem == f"{number}-{re.sub(r'[^a-z0-9]+', '-', words.lower().replace(chr(39), ''))}"
    assert f"[{title.removeprefix('# ')}]({page.name})" in (DECISIONS / "README.md").read_text("utf-8")


def test_decisions_are_listed_once_and_by_number() -> None:
    listed = re.findall(r"^\| \[.*?\]\((.+?)\) \|", (DECISIONS / "README.md").read_text("utf-8"), re.MULTILINE)
    assert listed == sorted(page.name for page in DECISIONS.glob("[0-9]*.md"))
