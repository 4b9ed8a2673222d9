"""Any text passes models of all of HTCondor's parsers unchanged."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.services.htcondor.render import quoting

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
_PIECES = [*"$()[]'\"\\ a1{};|&<>*?#~=@%!:,.-^`\n\t\x7f", "ENV", "é", "$$(", "$("]
SIGNS = st.lists(st.sampled_from(_PIECES), max_size=12).map("".join)
ANY = st.one_of(TEXTS, SIGNS)
FITTING = ANY.filter(quoting.is_quotable)


def read_vars(text: str) -> str:
    """The value in a line ``VARS`` as DAGMan reads it."""
    assert "\n" not in text
    assert not re.search(r'(?<!\\)(?:\\\\)*"', text), "a quote that is not escaped ends the value"
    return re.sub(r'\\(["\\])', r"\1", text)


def expand_macros(text: str, macros: dict[str, str]) -> str:
    """A value of a submit description with its macros filled in, those of what was filled in too."""
    for _ in range(5):
        found = re.search(r"\$[\w$]*\(", text, re.ASCII)
        if found is None:
            return text
        name = re.match(r"\$\((\w+)\)", text[found.start() :])
        assert name, f"{text!r} begins a macro of its own"
        text = text[: found.start()] + macros[name[1]] + text[found.start() + name.end() :]
    raise AssertionError(text)


def read_words(text: str) -> list[str]:
    """Words of arguments in the syntax with quotes around all."""
    inner = re.fullmatch(r'"((?:[^"]|"")*)"', text, re.DOTALL)
    assert inner, text
    words: list[str] = []
    word: str | None = None
    quoted = False
    rest = inner[1].replace('""', '"')
    place = 0
    while place < len(rest):
        sign = rest[place]
        if quoted and sign == "'" and rest[place : place + 2] == "''":
            word = (word or "") + "'"
            place += 1
        elif sign == "'":
            quoted, word = not quoted, word or ""
        elif not quoted and sign in " \t":
            words += [word] if word is not None else []
            word = None
        else:
            word = (word or "") + sign
        place += 1
    assert not quoted, text
    return words + ([word] if word is not None else [])


@given(st.lists(st.lists(FITTING, min_size=1, max_size=4), min_size=1, max_size=5))
def test_arguments_arrive_as_they_were_sent(jobs: list[list[str]]) -> None:
    lines = [quoting.quote_arguments(words) for words in jobs]
    before, after = quoting.shared_affixes(lines)
    begin, end = quoting.escape_description(before), quoting.escape_description(after)
    for words, line in zip(jobs, lines, strict=True):
        own = quoting.escape_vars(quoting.escape_description(line[len(before) : len(line) - len(after)]))
        assert read_words(expand_macros(f'"{begin}$(a){end}"', {"a": read_vars(own)})) == words


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), FITTING, min_size=1, max_size=4))
def test_variables_arrive_as_they_were_sent(variables: dict[str, str]) -> None:
    text = quoting.quote_environment(variables)
    own = read_vars(quoting.escape_vars(quoting.escape_description(text)))
    found = read_words(expand_macros('"A=b $(e)"', {"e": own}))
    assert found == ["A=b", *(f"{name}={value}" for name, value in variables.items())]


@given(st.lists(ANY, min_size=1, max_size=5))
def test_beginning_and_end_never_overlap(texts: list[str]) -> None:
    before, after = quoting.shared_affixes(texts)
    for text in texts:
        assert text.startswith(before)
        assert text.endswith(after)
        assert len(before) + len(after) <= len(text)
        assert text == before + text[len(before) : len(text) - len(after)] + after
    if len(set(texts)) > 1:
        assert not before.endswith("$")


@given(ANY)
def test_unquotable_text_is_packed(line: str) -> None:
    words = quoting.pack_line(line)
    assert all(map(quoting.is_quotable, words))
    unpacked = re.sub(
        r"\\(\\|n|t|r|0[0-7]{3})",
        lambda found: {"\\": "\\", "n": "\n", "t": "\t", "r": "\r"}.get(found[1]) or chr(int(found[1][1:], 8)),
        words[-1],
    )
    assert unpacked == line


@pytest.mark.parametrize(
    "line",
    [
        "printf '%s' 'a  b\nc\td\\n\\\\'",
        'x=1\nif [ "$x" -eq 1 ]; then printf "%s" "one $x"; fi  # a comment\n',
        "printf '%s|' '$$(Machine)' '$$([1])' \"$0\" \"$#\"",
        "printf '%s' '\\0101 %b \\c é'",
    ],
)
def test_a_shell_unpacks_it(line: str) -> None:
    plain = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True)
    packed = subprocess.run(quoting.pack_line(line), capture_output=True, check=True)
    assert packed.stdout == plain.stdout


def test_plain_words_stay_readable() -> None:
    assert quoting.quote_arguments(["--visit", "12", "a b", ""]) == "--visit 12 'a b' ''"
    assert quoting.quote_environment({"A": "", "B": "x y"}) == "A= B='x y'"
    assert quoting.quote_word("$(x)") == "'$'('x)'"
    assert quoting.quote_attribute('a "b"\\$') == '"a _b___"'


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "\x01", "$$(Machine)", "$$$([1+1])"])
def test_unquotable_text(text: str) -> None:
    assert not quoting.is_quotable(text)
