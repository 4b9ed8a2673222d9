"""Every command that a message names is one that can be typed: its words are parsed by the real commands."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator, Sequence

import click
import pytest
from tests.house.source_trees import MODULES, PACKAGE, nodes_of

from longshore.cli.main import COMMANDS, longshore

_COMMAND = re.compile(rf"longshore (?:{'|'.join(COMMANDS)})(?![\w.|=-])[^'`\n;()]*")
_END = re.compile(
    r"    |[.,:?]( |$)| \|| &&| >| or, | then| runs |(?<!config)(?<!site) shows? | gives | writes | prints | and "
)
"""Where a command in a sentence ends."""
_OPTIONS = {"option", "ways", "memory", "release"}
"""Values that hold options and no name."""
_SUBJECT = re.compile(r"' \w")
"""What follows a command in quotes that a sentence speaks of, as in "'longshore restart' runs jobs again"."""
_AT_LEAST = 100
"""Commands that messages name, about."""


def _texts(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Texts of a module, but for docstrings, with `x` for what is filled in."""
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(map(_filled, node.values)),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (parts | docs):
            yield node.lineno, node.value


def _filled(part: ast.expr) -> str:
    """Return the text of a part, `x` for a value, and nothing for options that are put together elsewhere."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "" if ast.unparse(part).strip("{}") in _OPTIONS else "x"


def _printed() -> dict[str, str]:
    """Commands in texts of the package, and where each is."""
    found: dict[str, str] = {}
    for path in MODULES:
        for line, text in _texts(nodes_of(path)):
            found |= {each: f"{path.relative_to(PACKAGE)}:{line}" for each in _typed(text) if each not in found}
    return found


def _typed(text: str) -> Iterator[str]:
    """Commands that a text gives to be typed, and not those of which it only speaks."""
    for match in _COMMAND.finditer(text):
        # A value in quotes is cut off, and one that is added to the text.
        is_bare = len(match[0].split()) == 2
        is_cut = match[0].endswith(" ") and text[match.end() : match.end() + 1] in {"'", *([""] if is_bare else [])}
        command = _END.split(match[0] + "x" * is_cut)[0].strip()
        is_bare = len(command.split()) == 2
        # A text of a command alone is the reason of what it does.
        if not is_bare or not (command == text or _SUBJECT.match(text, match.start() + len(command))):
            yield command


def parse(words: list[str]) -> None:
    """Parse the words of a command as the program does, without a look at the files that they name."""
    ctx = click.Context(longshore, info_name="longshore")
    command: click.Command = longshore
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(ctx, name)
        assert found is not None, f"there is no command '{name}'"
        command, ctx = found, click.Context(found, info_name=name, parent=ctx)
    options, rest, _ = command.make_parser(ctx).parse_args(words)
    assert not rest, f"{rest} is too much"
    is_named = any(isinstance(options.get(name), str) for name in ("run", "reference"))
    assert is_named or not _requires_run(command), "the run is missing"
    for each in command.params:
        given = options.get(each.name or "")
        if isinstance(each, click.Argument):
            assert not each.required or isinstance(given, str | list | tuple), f"'{each.make_metavar(ctx)}' is missing"
        elif isinstance(each.type, click.Choice) and isinstance(given, str) and given not in {"x", "KIND"}:
            assert given in each.type.choices


def _requires_run(command: click.Command) -> bool:
    """Whether a command ends with an error if no run is named, which its arguments alone do not tell."""
    call = command.callback
    while call is not None and call.__code__.co_name != "with_run":
        call = getattr(call, "__wrapped__", None)
    return call is not None and inspect.getclosurevars(call).nonlocals["required"] is True


def test_commands_that_messages_name_can_be_typed() -> None:
    """One test: a parameter for each command would parse the whole package wherever tests are collected."""
    printed = _printed()
    assert len(printed) > _AT_LEAST, "the commands are no longer found"
    wrong = []
    for command, place in printed.items():
        try:
            parse(shlex.split(command.replace("...", "x"))[1:])
        except (click.ClickException, AssertionError) as error:
            text = error.format_message() if isinstance(error, click.ClickException) else str(error)
            wrong.append(f"{place}: {command}: {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "command",
    [
        "nope",
        "report --nope",
        "init --kind",
        "logs x y z",
        "config nope",
        "config lint",
        "draw x y z",
        "unpause",
        "throttle --off",
    ],
)
def test_a_command_that_cannot_be_typed_is_found(command: str) -> None:
    with pytest.raises((click.ClickException, AssertionError)):
        parse(shlex.split(command))


def test_what_a_text_gives_to_be_typed() -> None:
    assert list(_typed("no job starts before 'longshore unpause'")) == ["longshore unpause"]
    assert list(_typed("to look at it: longshore report x; then go on")) == ["longshore report x"]
    assert list(_typed("Only 'longshore restart' runs jobs again, and this too: longshore verify ")) == [
        "longshore verify x"
    ]
