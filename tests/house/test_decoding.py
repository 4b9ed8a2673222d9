"""Damaged content has many errors: code that decodes files catches all of them by one name, `DECODE_ERRORS`."""

from __future__ import annotations

import ast

import msgspec
import pytest
from tests.house.source_trees import MODULES, PACKAGE, tree_of

from longshore.errors import DECODE_ERRORS

EXCEPTIONS = {
    "plan/resolved_run.py": "reads a text, which has no other errors",
    "config/interpolate.py": "evaluates arithmetic, and a literal of Python",
    "graphs/graph_file.py": "has words for each kind of error",
    "graphs/wfformat.py": "has words for each kind of error",
    "graphs/tables.py": "has words for each kind of error",
    "model/values.py": "compiles a regular expression, and decodes nothing",
    "services/htcondor/check.py": "evaluates arithmetic of a text, and decodes nothing",
    "config/includes.py": "tells the place of the byte that is not UTF-8",
}
_SINGLE = {"DecodeError", "MsgspecError", "RecursionError", "UnicodeDecodeError", "ValidationError"}


def single_errors(tree: ast.AST) -> list[int]:
    """Lines of the handlers that name only some of the errors of damaged content."""
    handlers = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type)
    return [
        handler.lineno
        for handler in handlers
        if _SINGLE & {ast.unparse(part).rpartition(".")[2] for part in ast.walk(handler.type or handler)}
    ]


def test_damage_is_caught_by_one_name() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): lines for path in MODULES if (lines := single_errors(tree_of(path)))}
    assert not {name: lines for name, lines in found.items() if name not in EXCEPTIONS}
    assert set(EXCEPTIONS) <= set(found), "an exception that is none any more"


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("except msgspec.MsgspecError: pass", True),
        ("except (OSError, UnicodeDecodeError): pass", True),
        ("except DECODE_ERRORS: pass", False),
        ("except (OSError, *DECODE_ERRORS): pass", False),
    ],
)
def test_a_handler_of_single_errors_is_found(source: str, is_one: bool) -> None:
    assert bool(single_errors(ast.parse(f"try: pass\n{source}"))) is is_one


@pytest.mark.parametrize(
    "content",
    [b'{"a": "\xff"}', b"\xff", b"", b'{"a": 1e999}', b'{"a": ' + b"9" * 5000 + b"}", b'{"a": ' + b"[" * 100_000],
)
def test_every_damage_of_json_is_one_of_the_errors(content: bytes) -> None:
    with pytest.raises(DECODE_ERRORS):
        msgspec.json.decode(content, type=dict[str, object])
