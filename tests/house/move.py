"""Moves and merges modules of the package, and rewrites who names them: imports, dotted names in strings, paths.

    python -m tests.house.move PLAN.py

The plan is a Python file with these names; modules are written without ``longshore.``:

``MODULES``
    New module: ``(docstring, [old modules in order], {old module: {old name: new name}})``; the docstring is None to
    keep that of a single old module.
``PACKAGES``
    New package: its docstring.
``TESTS``
    Old folder below ``tests``: its new folder.

A merged module has the parts in the order in which they need each other, otherwise in that of the plan. Names that two
parts define differently stop the move, all of them at once. ruff sorts imports and removes those that nothing uses.
"""

from __future__ import annotations

import ast
import io
import re
import runpy
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "python"
_TOP: Final = "longshore"
_SEARCHED: Final = (
    "python",
    "tests",
    "bin",
    "doc",
    "etc",
    ".ci",
    "pyproject.toml",
    "README.md",
    ".pre-commit-config.yaml",
)
_SUFFIXES: Final = frozenset({".py", ".toml", ".md", ".yaml", ".txt", ".sh", ".cfg", ".css", ".c", ""})
_WIDTH: Final = 120


class Part(NamedTuple):
    """An old module, taken apart."""

    name: str
    docstring: str
    imports: dict[str, tuple[str, str]]
    """Local name: module and name, the module of ``import x`` is empty."""
    typing_imports: dict[str, tuple[str, str]]
    body: str
    defined: dict[str, str]
    """Names of the module, each with the source that defines it."""


def path_of(module: str) -> Path:
    """Return the file of a module that is named without the package."""
    path = SOURCE / _TOP / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def take_apart(module: str, renames: Mapping[str, str]) -> Part:
    """Read a module, and return its imports apart from what it defines."""
    text = path_of(module).read_text("utf-8")
    for old, new in renames.items():
        text = re.sub(rf"(?<![\w.]){re.escape(old)}\b", new, text)
    tree, lines = ast.parse(text), text.splitlines()
    imports: dict[str, tuple[str, str]] = {}
    typing_imports: dict[str, tuple[str, str]] = {}
    defined: dict[str, str] = {}
    cut: set[int] = set()
    for position, node in enumerate(tree.body):
        begin = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        span = set(range(begin - 1, node.end_lineno or begin))
        if position == 0 and ast.get_docstring(tree) is not None:
            cut |= span
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports |= dict(_imported(node))
            cut |= span
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and _only_imports(node):
            for each in node.body:
                assert isinstance(each, ast.Import | ast.ImportFrom)
                typing_imports |= dict(_imported(each))
            cut |= span
        else:
            source = "\n".join(lines[begin - 1 : node.end_lineno])
            defined |= dict.fromkeys(_names(node), source)
    body = "\n".join(line for number, line in enumerate(lines) if number not in cut).strip("\n")
    return Part(module, ast.get_docstring(tree) or "", imports, typing_imports, body, defined)


def _only_imports(node: ast.If) -> bool:
    return not node.orelse and all(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str]]]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield (
                alias.asname or alias.name.partition(".")[0],
                ("", alias.name + (f" as {alias.asname}" if alias.asname else "")),
            )
        else:
            yield alias.asname or alias.name, (node.module or "", alias.name)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def order_parts(parts: list[Part]) -> list[Part]:
    """Return parts with those that others import first, otherwise in their own order."""
    own = {f"{_TOP}.{part.name}": part for part in parts}
    placed: list[Part] = []

    def place(part: Part) -> None:
        if part not in placed and part.name not in visiting:
            visiting.add(part.name)
            for module, _ in part.imports.values():
                if module in own:
                    place(own[module])
            placed.append(part)

    visiting: set[str] = set()
    for part in parts:
        place(part)
    return placed


def find_collisions(new: str, parts: list[Part]) -> list[str]:
    """Return the names that mean different things in parts of a module."""
    own = {f"{_TOP}.{part.name}" for part in parts}
    meanings: dict[str, dict[str, str]] = {}
    for part in parts:
        for name, source in part.defined.items():
            meanings.setdefault(name, {})[part.name] = source
        for name, (module, original) in (part.imports | part.typing_imports).items():
            if module in own:
                if name != original:
                    meanings.setdefault(name, {})[part.name] = f"an alias of {original}"
                    meanings[name]["(aliased within the module)"] = ""
                continue
            meanings.setdefault(name, {})[part.name] = f"import {module} {original}"
    return [f"{new}: {name}: {', '.join(found)}" for name, found in meanings.items() if len(set(found.values())) > 1]


def merge(new: str, docstring: str | None, parts: list[Part]) -> str:
    """Return the source of a module of several parts."""
    own = {f"{_TOP}.{part.name}" for part in parts}
    imports: dict[str, tuple[str, str]] = {}
    typing_imports: dict[str, tuple[str, str]] = {}
    seen: set[str] = set()
    bodies = []
    for part in order_parts(parts):
        imports |= {name: found for name, found in part.imports.items() if found[0] not in own}
        typing_imports |= {name: found for name, found in part.typing_imports.items() if found[0] not in own}
        body = part.body
        for name, source in part.defined.items():
            if name in seen:
                body = body.replace(f"{source}\n", "", 1) if f"{source}\n" in body else body.replace(source, "", 1)
            seen.add(name)
        head = ""
        if len(parts) > 1 and part.docstring:
            first = part.docstring if len(part.docstring) < 1200 else part.docstring.partition("\n\n")[0]
            head = (
                "\n".join(
                    "\n".join(f"# {line}".rstrip() for line in textwrap.wrap(paragraph, _WIDTH - 2))
                    for paragraph in [" ".join(first.split())]
                )
                + "\n\n\n"
            )
        bodies.append(head + body.strip("\n"))
    if any("annotations" not in part.imports for part in parts):
        # Records are decoded by their annotations, which must not be text.
        imports.pop("annotations", None)
        imports |= {name: found for name, found in typing_imports.items() if "networkx" not in found[1]}
        typing_imports = {name: found for name, found in typing_imports.items() if "networkx" in found[1]}
    typing_imports = {name: found for name, found in typing_imports.items() if name not in imports}
    text = docstring if docstring is not None else parts[0].docstring
    lines = [f'"""{text}"""' if "\n" not in text else f'"""{text}\n"""', ""]
    lines += [_import_line(name, *found) for name, found in imports.items() if found == ("__future__", "annotations")]
    lines += [_import_line(name, *found) for name, found in imports.items() if found != ("__future__", "annotations")]
    if typing_imports:
        lines += ["from typing import TYPE_CHECKING", "", "if TYPE_CHECKING:"]
        lines += ["    " + _import_line(name, *found) for name, found in typing_imports.items()]
    return "\n".join(lines) + "\n\n" + "\n\n\n".join(bodies) + "\n"


def _import_line(name: str, module: str, original: str) -> str:
    if not module:
        return f"import {original}"
    return f"from {module} import {original}" + (f" as {name}" if name != original else "")


def searched_files() -> Iterator[Path]:
    """Iterate over the files that may name a module."""
    for name in _SEARCHED:
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                yield path


def rewrite_module_imports(text: str, moved: Mapping[str, str], here: str) -> str:
    """Rewrite ``from package import module`` of modules that move, and the uses of those names."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.splitlines(keepends=True)
    uses: list[tuple[str, str]] = []
    for node in sorted((n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)), key=lambda n: -n.lineno):
        full = [(alias, f"{node.module}.{alias.name}".removeprefix(f"{_TOP}.")) for alias in node.names]
        if not (node.module or "").startswith(_TOP) or not any(name in moved for _, name in full):
            continue
        indent = re.match(r"\s*", lines[node.lineno - 1])[0]  # type: ignore[index]
        out = []
        for alias, name in full:
            if name not in moved:
                out.append(f"from {node.module} import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
                continue
            package, _, last = f"{_TOP}.{moved[name]}".rpartition(".")
            local = alias.asname or alias.name
            if moved[name] == here:
                uses.append((local, ""))
                continue
            if alias.asname or (local != last and re.search(rf"(?<![\w.]){last}\b(?!\.py)", text)):
                out.append(f"from {package} import {last}" + (f" as {local}" if local != last else ""))
            else:
                out.append(f"from {package} import {last}")
                if local != last:
                    uses.append((local, last))
        lines[node.lineno - 1 : node.end_lineno] = [f"{indent}{line}\n" for line in out] or [f"{indent}pass\n"] * bool(
            indent
        )
    text = "".join(lines)
    for local, last in uses:
        text = rename_name(text, local, last)
    return text


def rename_name(text: str, local: str, last: str) -> str:
    """Rename a name that stands for a module; without a new name, the module's names stand alone."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for position in range(len(tokens) - 1, 0, -1):
        token, before, after = (
            tokens[position],
            tokens[position - 1],
            tokens[position + 1 if position + 1 < len(tokens) else position],
        )
        if token.type == tokenize.STRING and "f" in token.string[:2].lower() and token.start[0] == token.end[0]:
            new = re.sub(rf"(?<=[{{ (,]){local}\.(?=\w)", f"{last}." if last else "", token.string)
            line = lines[token.start[0] - 1]
            lines[token.start[0] - 1] = line[: token.start[1]] + new + line[token.end[1] :]
            continue
        if (
            token.type != tokenize.NAME
            or token.string != local
            or before.string in {".", "import", "def", "class", "as"}
        ):
            continue
        if after.string == "=" and before.string in {"(", ","}:
            continue
        row, begin = token.start
        end = token.end[1]
        if not last:
            if after.string != ".":
                print(f"a bare use of the module itself: {local}, line {row}")
                continue
            end = after.end[1]
        line = lines[row - 1]
        lines[row - 1] = line[:begin] + last + line[end:]
    return "".join(lines)


def drop_own_imports(text: str, module: str) -> str:
    """Remove imports within functions of what the module itself has."""
    lines = text.splitlines(keepends=True)
    for node in sorted(
        (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)), key=lambda n: -n.lineno
    ):
        if node.module == f"{_TOP}.{module}":
            if any(alias.asname for alias in node.names):
                print(f"{module}:{node.lineno}: an alias of its own name: {ast.unparse(node)}")
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


class Plan(NamedTuple):
    """What is to be moved."""

    docstrings: dict[str, str | None]
    parts: dict[str, list[Part]]
    """New module: the old ones."""
    names: dict[tuple[str, str], str]
    """Old module and name: the new name."""
    packages: dict[str, str]
    tests: dict[str, str]

    @classmethod
    def read(cls, path: str) -> Plan:
        """Read a plan, and the modules that it names; ends the program if names collide."""
        found: dict[str, Any] = runpy.run_path(path)
        entries = {new: (entry[0], entry[1], entry[2] if entry[2:] else {}) for new, entry in found["MODULES"].items()}
        names = {
            (old, name): other
            for _, _, renames in entries.values()
            for old, pairs in renames.items()
            for name, other in pairs.items()
        }
        parts = {
            new: [take_apart(old, renames.get(old, {})) for old in olds] for new, (_, olds, renames) in entries.items()
        }
        olds = [part.name for each in parts.values() for part in each]
        if twice := sorted({old for old in olds if olds.count(old) > 1}):
            sys.exit(f"named twice: {', '.join(twice)}")
        if collisions := [line for new, each in parts.items() for line in find_collisions(new, each)]:
            sys.exit("\n".join(["names that two parts define differently:", *collisions]))
        docstrings = {new: docstring for new, (docstring, _, _) in entries.items()}
        return cls(docstrings, parts, names, found.get("PACKAGES", {}), found.get("TESTS", {}))

    @property
    def moved(self) -> dict[str, str]:
        """Old module: the new one."""
        return {part.name: new for new, parts in self.parts.items() for part in parts}


def main() -> None:
    """Move what the plan says."""
    plan = Plan.read(sys.argv[1])
    sources = {new: merge(new, plan.docstrings[new], parts) for new, parts in plan.parts.items()}
    for package, docstring in plan.packages.items():
        init = SOURCE / _TOP / Path(*package.split(".")) / "__init__.py"
        init.parent.mkdir(parents=True, exist_ok=True)
        if not init.exists():
            init.write_text(f'"""{docstring}"""\n', "utf-8")
    for new, parts in plan.parts.items():
        _replace_files(new, [part.name for part in parts], sources[new])
    for old, new in plan.tests.items():
        _move_tests(old, new)
    for path in searched_files():
        _rewrite_file(path, plan)
    _remove_empty_packages()
    places = ["python", "tests", "bin", "doc"]
    subprocess.run(["ruff", "check", "-q", "--fix", "--select", "I,F401", *places], cwd=ROOT, check=False)
    subprocess.run(["ruff", "format", "-q", *places], cwd=ROOT, check=False)
    subprocess.run(["ruff", "check", "--output-format", "concise", "."], cwd=ROOT, check=False)


def _replace_files(new: str, olds: list[str], source: str) -> None:
    """Write a module in place of the old ones; git follows the largest of them."""
    target = SOURCE / _TOP / Path(*new.split(".")).with_suffix(".py")
    target.parent.mkdir(parents=True, exist_ok=True)
    first = max(map(path_of, olds), key=lambda path: path.stat().st_size)
    if first != target:
        if target.exists() and new not in olds:
            sys.exit(f"{target} is there")
        if not target.exists():
            subprocess.run(["git", "mv", str(first), str(target)], check=True, cwd=ROOT)
    for old in olds:
        if path_of(old) != target and path_of(old).exists():
            subprocess.run(["git", "rm", "-qf", str(path_of(old))], check=True, cwd=ROOT)
    target.write_text(source, "utf-8")


def _rewrite_file(path: Path, plan: Plan) -> None:
    """Rewrite what a file says of moved modules."""
    try:
        before = text = path.read_text("utf-8")
    except UnicodeDecodeError:
        return
    moved = plan.moved
    inside = path.is_relative_to(SOURCE / _TOP)
    here = ".".join(path.relative_to(SOURCE / _TOP).with_suffix("").parts) if inside else ""
    if path.suffix == ".py" and _TOP in text:
        for (old, name), other in plan.names.items():
            imported = rf"from {_TOP}\.{re.escape(old)} import [^#]*?\b{re.escape(name)}\b"
            if here != moved[old] and re.search(imported, text):
                text = re.sub(rf"(?<![\w.]){re.escape(name)}\b", other, text)
        text = rewrite_module_imports(text, moved, here)
    olds = sorted(moved, key=len, reverse=True)
    text = re.sub(
        rf"\b{_TOP}\.({'|'.join(map(re.escape, olds))})\b(?!/)", lambda match: f"{_TOP}.{moved[match[1]]}", text
    )
    paths = {old.replace(".", "/"): new.replace(".", "/") for old, new in moved.items()}
    text = re.sub(
        rf"(?<![\w/])((?:python/)?(?:{_TOP}/)?)({'|'.join(re.escape(old.replace('.', '/')) for old in olds)})\.py\b",
        lambda match: f"{match[1]}{paths[match[2]]}.py",
        text,
    )
    for old, new in plan.tests.items():
        text = re.sub(rf"\btests\.{re.escape(old.replace('/', '.'))}\b", f"tests.{new.replace('/', '.')}", text)
        text = re.sub(rf"\btests/{re.escape(old)}(?=[/`\"' ]|$)", f"tests/{new}", text)
    if here in plan.parts:
        text = drop_own_imports(text, here)
    if text != before:
        path.write_text(text, "utf-8")


def _move_tests(old: str, new: str) -> None:
    source, target = ROOT / "tests" / old, ROOT / "tests" / new
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name == "__pycache__":
            continue
        if (target / path.name).exists():
            sys.exit(f"{target / path.name} is there")
        subprocess.run(["git", "mv", str(path), str(target / path.name)], check=True, cwd=ROOT)
        if path.suffix == ".py" and (deeper := len(Path(old).parts) - len(Path(new).parts)):
            moved_path = target / path.name
            text = moved_path.read_text("utf-8")
            moved_path.write_text(
                re.sub(r"(__file__\)\.resolve\(\)\.parents\[)(\d)\]", lambda m: f"{m[1]}{int(m[2]) - deeper}]", text),
                "utf-8",
            )


def _remove_empty_packages() -> None:
    for init in sorted((SOURCE / _TOP).rglob("__init__.py"), key=lambda path: -len(path.parts)):
        others = [path for path in init.parent.iterdir() if path.name not in {"__init__.py", "__pycache__"}]
        others = [path for path in others if not path.is_dir() or any(path.rglob("*.py"))]
        if not others and not ast.parse(init.read_text("utf-8")).body[1:]:
            subprocess.run(["git", "rm", "-qf", "--ignore-unmatch", str(init)], check=True, cwd=ROOT)
            init.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
