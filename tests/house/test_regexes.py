"""Only one function compiles regular expressions that users write; all others are constants of the program."""

from __future__ import annotations

import ast

from tests.house.source_trees import MODULES, PACKAGE, tree_of

EXCEPTIONS = {
    "services/batch/answers.py": "tables of dialects: what error messages mean",
    "config/schema.py": "patterns of our schemas and of a plug-in's",
    "config/secrets.py": "made of an escaped text, without a way back",
    "graphs/query.py": "made of a glob, without a way back",
    "graphs/file_patterns.py": "made of a glob, without a way back",
    "model/values.py": "the one function",
}
_FUNCTIONS = {
    f"re.{name}" for name in ("compile", "search", "match", "fullmatch", "finditer", "findall", "sub", "split")
}


def variable_patterns(tree: ast.AST) -> list[int]:
    """Lines of calls whose regular expression is the value of a local name or an attribute."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _FUNCTIONS and not _is_constant(node.args[0])
    ]


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    if isinstance(node, ast.Tuple):
        return all(map(_is_constant, node.elts))
    if isinstance(node, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) for part in node.values)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def test_regular_expressions_of_users_are_compiled_in_one_place() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): lines for path in MODULES if (lines := variable_patterns(tree_of(path)))
    }
    assert not {name: lines for name, lines in found.items() if name not in EXCEPTIONS}
    assert set(EXCEPTIONS) <= set(found), "an exception that is none any more"


def test_a_pattern_from_elsewhere_is_found() -> None:
    assert variable_patterns(ast.parse("re.search(text, log)"))
    assert variable_patterns(ast.parse("re.compile(value.regex)"))
    assert variable_patterns(ast.parse("re.compile('a%s' % (_END, end))"))
    assert not variable_patterns(ast.parse("re.compile('a' + _END)"))
    assert not variable_patterns(ast.parse("re.compile('a%s' % (_END, _BEGIN))"))
