"""Messages count in the right number: nowhere ``1 jobs``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.house.source_trees import MODULES, PACKAGE, tree_of

_PLURAL: Final = re.compile(
    r" (?:more )?(jobs|tasks|attempts|runs|files|labels|clusters|errors|failures|batches|events|nodes|others)\b"
)
_PLURAL_VERB: Final = re.compile(r"\bthere are $")
_ALWAYS_MANY: Final = {
    # Module and noun: the number is never one there, or is no count.
    ("app/control/restart.py", "runs"),
    ("app/control/steer.py", "runs"),
    ("cli/control/cancel.py", "runs"),
    ("app/job/state_reasons.py", "runs"),
    ("engine/run/judge_end.py", "tasks"),
    ("model/tasks/dag.py", "nodes"),
    ("plan/transform.py", "files"),
    ("batch/check_requests.py", "jobs"),
    ("batch/native/native_run.py", "jobs"),
    ("world/read/yaml_includes.py", "files"),
}


def plural_counts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and plural word of each number in an f-string with a plural noun or verb, but for a choice of texts."""
    chosen = {id(child) for node in ast.walk(tree) if isinstance(node, ast.IfExp) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr) or id(node) in chosen:
            continue
        for text, value in zip(node.values, node.values[1:], strict=False):
            if isinstance(text, ast.Constant) and "count_noun" in ast.unparse(value):
                yield from ((node.lineno, found[0]) for found in _PLURAL_VERB.finditer(str(text.value)))
        for value, text in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                found = _PLURAL.match(str(text.value))
                if found and "count_noun" not in ast.unparse(value):
                    yield node.lineno, found[1]


def test_no_message_says_one_jobs() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {noun}"
        for path in MODULES
        for line, noun in plural_counts(tree_of(path))
        if (str(path.relative_to(PACKAGE)), noun) not in _ALWAYS_MANY
    ]
    assert found == [], "use count_noun(number, noun) or there_are(number, noun)"
