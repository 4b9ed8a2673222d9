"""Measures the house: how much code, how it is cut, and what four ways through it enter.

    python -m tests.house.measure            prints each figure beside its baseline
    python -m tests.house.measure --write    writes the figures as the new baseline

A way is a real run whose calls are recorded (`tests.house.trace`). Figures are printed, never asserted; rules that
rooms must keep are in `tests.house.test_rooms`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from tests.e2e.slurm_stand_ins import write_programs
from tests.house.source_trees import MODULES, PACKAGE, lines_of_code, nodes_of, tree_of

BASELINE: Final = Path(__file__).with_name("baseline.json")
SMALL: Final = 80
"""Lines of code below which a module has to give its reason."""
_KEYS: Final = ("requestDisk", "retryUnlessExit", "killGrace", "requestMemoryMax")
"""Keys of jobs whose places in the code stand for those of a new key."""
_FEWEST_FIELDS: Final = 4
_SHARED: Final = 0.7
_WAIT_S: Final = 120
_LOOKS: Final = 15


class Call(NamedTuple):
    """A call that a way made: when, of which function, and the records that it was given or that it returned."""

    time_s: float
    process: str
    module: str
    function: str
    records: tuple[str, ...]


# What the sources show.


def functions_of(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Iterate over the functions and methods of a module with their qualified names, without nested functions."""
    bodies: list[tuple[str, list[ast.stmt]]] = [("", tree_of(path).body)]
    for prefix, body in bodies:
        for node in body:
            if isinstance(node, ast.ClassDef):
                bodies.append((f"{prefix}{node.name}.", node.body))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{node.name}", node


def is_forward(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether all that a function does is to call another one with what it was given, in the same order or not."""
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or function.decorator_list:
        return False
    call = body[0].value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    names += [each.arg for each in (arguments.vararg, arguments.kwarg) if each]
    own = [name for name in names if name not in {"self", "cls"}]
    values = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
    values += [each.value for each in call.keywords]
    given = [value.id for value in values if isinstance(value, ast.Name)]
    return bool(own) and len(given) == len(values) and sorted(given) == sorted(own)


def forwards_of(path: Path) -> list[str]:
    """Return the public functions of a module that only forward, `Class.method` for methods."""
    return [
        name
        for name, node in functions_of(path)
        if not any(part.startswith("_") for part in name.split(".")) and is_forward(node)
    ]


def records_of(path: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Iterate over the classes of a module that are records, each with the names of its own fields."""
    for node in nodes_of(path):
        if isinstance(node, ast.ClassDef):
            fields = {
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign)
                and isinstance(each.target, ast.Name)
                and "ClassVar" not in ast.unparse(each.annotation)
            }
            if len(fields) >= _FEWEST_FIELDS:
                yield node.name, frozenset(fields)


def similar_records(records: Iterable[tuple[str, frozenset[str]]]) -> list[tuple[str, str]]:
    """Return the pairs of records that share seven of ten fields of the larger one."""
    return [
        (one, other)
        for (one, fields), (other, others) in combinations(records, 2)
        if len(fields & others) >= _SHARED * max(len(fields), len(others))
    ]


def import_lines(path: Path) -> int:
    """Return the number of lines that imports take."""
    nodes = (node for node in nodes_of(path) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def key_places(key: str) -> int:
    """Return in how many files of the package and of its settings a key of jobs is named, as in YAML or in Python."""
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in key)
    files = (*MODULES, *(path for path in (PACKAGE.parents[1] / "etc").rglob("*") if path.is_file()))
    return sum(any(name in text for name in (key, snake)) for text in (path.read_text("utf-8") for path in files))


def measure_sources() -> dict[str, float]:
    """Return the figures that the sources show."""
    lines = {path: lines_of_code(path) for path in MODULES}
    with_code = [path for path in MODULES if lines[path]]
    total = sum(lines.values())
    imports = sum(map(import_lines, MODULES))
    return {
        "modules with code": len(with_code),
        "modules below 80 lines": sum(lines[path] < SMALL for path in with_code),
        "lines of code": total,
        "lines of imports": imports,
        "imports, % of the code": round(100 * imports / total, 1),
        "classes": sum(isinstance(node, ast.ClassDef) for path in MODULES for node in nodes_of(path)),
        "public functions that only forward": sum(len(forwards_of(path)) for path in MODULES),
        "pairs of similar records": len(similar_records([each for path in MODULES for each in records_of(path)])),
        "files that name a key of jobs": round(sum(map(key_places, _KEYS)) / len(_KEYS), 1),
    }


# What four ways through the house show.

_YAML: Final = """payload: {{payloadName: way}}
pipeline:
  tasks:
    only: {{command: {command!r}}}
requestMemory: {memory}
"""
_NOW: Final = "date +%s.%N >> {folder}/marks"
_GREEDY: Final = f'{_NOW}; python3 -c "x = bytearray(2 * 10**8); import time; time.sleep(2)"'


class Traced(NamedTuple):
    """A folder for a way, and the environment of the commands that walk it."""

    folder: Path
    environ: Mapping[str, str]

    def run(self, *words: str) -> str:
        """Run a command, and return its output; RuntimeError with what it said if it fails."""
        command = [sys.executable, "-m", "longshore", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, check=False, capture_output=True, text=True, timeout=_WAIT_S
        )
        if done.returncode:
            raise RuntimeError(f"'longshore {' '.join(words)}' ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def marks(self) -> list[float]:
        """Return the times that jobs and stand-ins noted, in seconds since 1970."""
        path = self.folder / "marks"
        return [float(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def calls(self, begin_s: float = 0, end_s: float = float("inf")) -> list[Call]:
        """Return what was called from a time until another."""
        found = []
        for path in sorted((self.folder / "calls").glob("*")):
            for line in path.read_text("utf-8").splitlines():
                time_s, module, function, *records = line.split("\t")
                if begin_s <= float(time_s) <= end_s:
                    found.append(Call(float(time_s), path.name, module, function, tuple(records)))
        return sorted(found)

    def engine_calls(self, begin_s: float, end_s: float) -> list[Call]:
        """Return what others than the first process, the command, called from a time until another."""
        command = self.calls()[0].process
        return [call for call in self.calls(begin_s, end_s) if call.process != command]


def _begin_way(folder: Path, command: str, *, memory: int = 50, lines: str = "", **environ: str) -> Traced:
    """Write a run of one job, and the environment in which all processes record their calls."""
    (folder / "calls").mkdir(parents=True)
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(
        Path(__file__).with_name("trace.py").read_text("utf-8"), encoding="utf-8"
    )
    text = _YAML.format(command=command.format(folder=folder), memory=memory)
    (folder / "way.yaml").write_text(text + lines, "utf-8")
    paths = [str(folder / "path"), str(PACKAGE.parent)]
    own = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(paths),
        "LONGSHORE_TRACE_CALLS": str(folder / "calls"),
        "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX", str(folder / "cache")),
    }
    return Traced(folder, {**own, **environ})


def walk_submit(folder: Path) -> list[Call]:
    """Walk from ``submit`` to the start of the first job."""
    way = _begin_way(folder, _NOW)
    way.run("submit", "way.yaml", "--wait")
    return way.calls(end_s=way.marks()[0])


def walk_retry(folder: Path) -> list[Call]:
    """Walk from a job that uses too much memory to its next attempt, in the engine."""
    way = _begin_way(folder, _GREEDY, lines="memoryMultiplier: 4\n", memory=100)
    way.run("submit", "way.yaml", "--wait")
    first, second = way.marks()
    return way.engine_calls(first, second)


def walk_squeue(folder: Path) -> list[Call]:
    """Walk from an answer of ``squeue`` to the question after it."""
    way = _begin_way(folder, "sleep 4", lines="computeSite: cluster\nslurm: {pollInterval: 1}\n")
    profile = folder / ".config" / "longshore" / "sites" / "cluster.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text("title: A cluster\nservice: slurm\n", "utf-8")
    programs = folder / "programs"
    found = write_programs(programs)
    asked = programs / "squeue"
    asked.write_text(asked.read_text("utf-8").replace("\n", f"\n{_NOW.format(folder=folder)}\n", 1), "utf-8")
    way = way._replace(environ={**way.environ, **found})
    way.run("submit", "way.yaml", "--wait")
    *_, first, second = way.marks()
    return way.engine_calls(first, second)


def walk_report(folder: Path) -> list[Call]:
    """Walk ``report`` of a run that is over."""
    way = _begin_way(folder, "true")
    way.run("submit", "way.yaml", "--wait")
    begin_s = time.time()
    way.run("report", "--id", "@last")
    return way.calls(begin_s)


def measure_looks() -> dict[str, float]:
    """Return how long a processor works for commands that look at a run, as a whole process."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        way = _begin_way(Path(folder), "true")
        way = way._replace(environ={**way.environ, "LONGSHORE_TRACE_CALLS": ""})
        way.run("submit", "way.yaml", "--wait")
        for words in (("status", "@last"), ("report",), ("report", "--id", "@last")):
            times = []
            for _ in range(_LOOKS):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                way.run(*words)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            figures[f"{' '.join(words)}: ms of a processor"] = round(1000 * statistics.median(times))
    return figures


WAYS: Final = {
    "submit to the first job": walk_submit,
    "a job out of memory tried again": walk_retry,
    "an answer of squeue": walk_squeue,
    "report of a run": walk_report,
}


def measure_ways() -> dict[str, float]:
    """Walk four ways, and return how many modules, forwards and types of records each of them met."""
    forwards = {
        (".".join(("longshore", *path.relative_to(PACKAGE).with_suffix("").parts)), name)
        for path in MODULES
        for name, node in functions_of(path)
        if is_forward(node)
    }
    figures: dict[str, float] = {}
    for name, walk in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            calls = walk(Path(folder))
        figures[f"{name}: modules"] = len({call.module for call in calls})
        figures[f"{name}: calls that only pass on"] = len({call[2:4] for call in calls} & forwards)
        figures[f"{name}: types of records"] = len({record for call in calls for record in call.records})
    return figures


def figure_lines(figures: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """Return a table: each figure, its baseline, and what it is now."""
    rows = [(name, f"{baseline.get(name, 0):g}", f"{value:g}") for name, value in figures.items()]
    width = max(len(name) for name, *_ in rows)
    return [f"{name:<{width}}  {before:>8}  {now:>8}" for name, before, now in [("", "baseline", "now"), *rows]]


def main() -> None:
    """Print the figures, or write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the figures as the new baseline")
    asked = parser.parse_args()
    figures = {**measure_sources(), **measure_ways(), **measure_looks()}
    if asked.write:
        BASELINE.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    print(*figure_lines(figures, json.loads(BASELINE.read_text("utf-8"))), sep="\n")


if __name__ == "__main__":
    main()
