"""Cases of each kind: a number and a seed always give the same files."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import yaml
from tests.fuzz.mutate import SCALARS, mutate_text, mutate_tree

from longshore.model.lines.checksum import SEED, add_checksum

ROOT = Path(__file__).resolve().parents[2]
Files: TypeAlias = dict[str, bytes]
"""Files of a case by name; the first is given to the command, and the only one that is shrunk."""

_TRACE = "graph.json"
_LABELS = ("isr", "calibrate", "coadd", "a", "b")
_QUERIES = (
    "visit",
    "band",
    "tract",
    "5",
    "'r'",
    "IN",
    "(",
    ")",
    "1..5",
    "AND",
    "OR",
    "NOT",
    "=",
    "!=",
    "<",
    "GLOB",
    "'a*'",
    ",",
)


def make_case(kind: str, seed: int, number: int, runs: Path | None = None) -> Files:
    """Return the files of a case; `runs` has the run directories that cases of the kind ``journal`` damage."""
    chance = Random(f"{kind} {seed} {number}")
    if kind == "journal":
        assert runs is not None
        return _journal(chance, runs)
    return _MAKERS[kind](chance)


# ---------------------------------------------------------------------------------------------- configuration, pipeline


@cache
def _yaml_trees() -> tuple[Any, ...]:
    paths = [
        *ROOT.glob("doc/examples/*/*.yaml"),
        *ROOT.glob("etc/starters/*.yaml"),
        *ROOT.glob("tests/data/bps/*.yaml"),
    ]
    trees = (yaml.safe_load(path.read_text("utf-8")) for path in sorted(paths))
    # The service of one example is a package that is not installed.
    return tuple(tree for tree in trees if isinstance(tree, dict) and tree.get("wmsServiceClass") != "minibatch")


@cache
def _schema() -> Any:
    return json.loads((ROOT / "etc/schema/config.json").read_text("utf-8"))


def _configuration(chance: Random) -> Files:
    base = dict(chance.choice(_yaml_trees()))
    for key in ("computeSite", "pipeline", "pipelineYaml", "qgraphFile", "graphFile", "includeConfigs"):
        base.pop(key, None)
    base["wfformat"] = _TRACE
    definitions = _schema()["$defs"]
    for _ in range(chance.randrange(5)):
        section = chance.choice([name for name, entry in definitions.items() if entry.get("properties")])
        keys = definitions[section]["properties"]
        key = chance.choice(list(keys))
        value = _value_for(keys[key], chance)
        place = chance.choice(("", "", "payload", "site", "pipetask", "cluster"))
        if not place:
            base[key] = value
        elif place == "payload":
            base[place] = {**(base.get(place) or {}), key: value}
        else:
            base[place] = {chance.choice(_LABELS): {key: value}}
    tree = mutate_tree(base, _yaml_trees(), chance) if chance.random() < 0.5 else base
    return {"run.yaml": _dump(tree, chance), _TRACE: _small_trace(chance)}


def _value_for(schema: Mapping[str, Any], chance: Random) -> Any:
    """Return a value that the schema of a key often accepts."""
    if chance.random() < 0.25:
        return chance.choice(SCALARS)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    kinds = schema.get("type", "string")
    kind = chance.choice(kinds if isinstance(kinds, list) else [kinds])
    if kind == "object":
        keys = schema.get("properties", {})
        return {name: _value_for(keys[name], chance) for name in keys if chance.random() < 0.5} or {"a": 1}
    if kind == "array":
        return [_value_for(schema.get("items", {}), chance) for _ in range(chance.randrange(4))]
    choices = {"number": (0, 1, 5, 2.5, -1, 1e6), "integer": (0, 1, 5, -1), "boolean": (True, False), "null": (None,)}
    return chance.choice(
        choices.get(kind, ("a", "8G", "{label}", "1h", "true", "ALWAYS", "x/{name}", "${HOME}", "r, i"))
    )


def _dump(tree: Any, chance: Random) -> bytes:
    try:
        text = yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")
    except yaml.YAMLError:
        text = b"a: 1\n"
    return mutate_text(text, chance) if chance.random() < 0.25 else text


def _pipeline(chance: Random) -> Files:
    if chance.random() < 0.5:
        bases = [tree for tree in _yaml_trees() if "pipeline" in tree]
        tree = mutate_tree(chance.choice(bases), _yaml_trees(), chance)
    else:
        tree = {"pipeline": _random_pipeline(chance)}
        if chance.random() < 0.4:
            tree["payload"] = {"dataQuery": _query(chance)}
        if chance.random() < 0.3:
            tree = mutate_tree(tree, _yaml_trees(), chance)
    return {"run.yaml": _dump(tree, chance), "table.csv": b"visit,band\n1,r\n2,i\n", "texts/a.txt": b"a\n"}


def _query(chance: Random) -> str:
    if chance.random() < 0.3:
        return " ".join(chance.choice(_QUERIES) for _ in range(chance.randrange(1, 10)))
    tests = (
        "visit > 1",
        "band = 'r'",
        "visit IN (1..3)",
        "NOT tract = 2",
        "band GLOB 'r*'",
        "(patch < 3 OR visit != 1)",
    )
    return chance.choice((" AND ", " OR ")).join(chance.choice(tests) for _ in range(chance.randrange(1, 4)))


def _random_pipeline(chance: Random) -> dict[str, Any]:
    """Return a pipeline that is mostly right: each dataset has one writer, and readers come after it."""
    values: Sequence[Any] = ([1, 2, 3], ["r", "i"], {"range": [1, 4]}, {"table": "table.csv", "column": "visit"}, [1])
    odd: Sequence[Any] = ({"glob": "texts/{visit}.txt"}, {"range": "1..5"}, {"range": [5, 1]}, [], 3, {"table": "no"})
    names = chance.sample(("visit", "band", "tract", "patch"), chance.randrange(1, 4))
    dimensions = {name: chance.choice(odd if chance.random() < 0.08 else values) for name in names}
    datasets: dict[str, str] = {}
    tasks: dict[str, Any] = {}
    for label in chance.sample(_LABELS, chance.randrange(1, 5)):
        own = chance.sample(names, chance.randrange(len(names) + 1))
        task: dict[str, Any] = {
            "dimensions": own,
            "command": chance.choice(("true", "echo {label}", ["echo", "{label}"])),
        }
        if datasets and chance.random() < 0.7:
            task["inputs"] = chance.sample(list(datasets), chance.randrange(1, len(datasets) + 1))
            task["command"] = f"cat {{{task['inputs'][0]}}}"
        if tasks and chance.random() < 0.2:
            task["after"] = [chance.choice(list(tasks))]
        if chance.random() < 0.8:
            datasets[f"of_{label}"] = "".join([label, *(f"_{{{name}}}" for name in own)])
            task["outputs"] = [f"of_{label}"]
        tasks[label] = task
    return {"dimensions": dimensions, "datasets": datasets, "tasks": tasks}


# ------------------------------------------------------------------------------------------------ WfFormat, graph files


@cache
def _traces() -> tuple[Any, ...]:
    paths = sorted([*ROOT.glob("tests/data/wfinstances/*.json"), ROOT / "doc/examples/montage/montage-2mass-005d.json"])
    return tuple(json.loads(path.read_text("utf-8")) for path in paths if path.stat().st_size < 100_000)


def _small_trace(chance: Random) -> bytes:
    tasks: list[dict[str, Any]] = []
    files = [{"id": f"f{n}", "sizeInBytes": chance.randrange(10_000)} for n in range(chance.randrange(4))]
    for n in range(chance.randrange(1, 6)):
        task: dict[str, Any] = {"name": chance.choice(_LABELS), "id": f"t{n}"}
        if n and chance.random() < 0.6:
            task["parents"] = [f"t{chance.randrange(n)}"]
        if files and chance.random() < 0.5:
            task["inputFiles"] = [chance.choice(files)["id"]]
        tasks.append(task)
    runs = [{"id": task["id"], "runtimeInSeconds": 1.5, "memoryInBytes": 1000, "avgCPU": 90.0} for task in tasks]
    workflow = {"specification": {"tasks": tasks, "files": files}, "execution": {"tasks": runs}}
    return json.dumps({"name": "w", "schemaVersion": "1.5", "workflow": workflow}).encode()


def _trace(chance: Random) -> Files:
    # A copy: the traces are cached, and a case changes its own.
    tree = copy.deepcopy(chance.choice(_traces())) if chance.random() < 0.3 else json.loads(_small_trace(chance))
    # Below the root, where a change leaves a document of the format more often.
    part = tree["workflow"]
    for key in ("specification", "tasks"):
        part = part[key] if chance.random() < 0.8 and key in part else part
    if isinstance(part, list):
        part[:] = [
            mutate_tree(each, [*part, *tree["workflow"]], chance) if chance.random() < 0.3 else each for each in part
        ]
    else:
        tree = mutate_tree(tree, _traces()[:1], chance)
    text = json.dumps(tree).encode()
    return {_TRACE: mutate_text(text, chance) if chance.random() < 0.1 else text, "run.yaml": b"wfformat: graph.json\n"}


def _graph_file(chance: Random) -> Files:
    tasks = chance.randrange(1, 6)
    files = [{"name": f"f{n}", "size_b": chance.randrange(100)} for n in range(chance.randrange(3))]
    lines: list[Any] = [
        {"kind": "longshore-graph", "version": 1, "name": "g", "tasks": tasks, "files": len(files)},
        *files,
    ]
    for n in range(tasks):
        line: dict[str, Any] = {
            "name": f"t{n}",
            "label": chance.choice(_LABELS),
            "command": chance.choice(("true", ["echo", "b"])),
        }
        if n and chance.random() < 0.6:
            line["parents"] = [chance.randrange(n)]
        if chance.random() < 0.4:
            line["data_id"] = {"visit": n, "band": "r"}
        lines.append(line)
    if chance.random() < 0.8:
        row = chance.randrange(len(lines))
        lines[row] = mutate_tree(lines[row], lines, chance)
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return {
        "graph.jsonl": mutate_text(text, chance) if chance.random() < 0.2 else text,
        "run.yaml": b"graphFile: graph.jsonl\n",
    }


# ------------------------------------------------------------------------------------------------------ run directories


def _journal(chance: Random, runs: Path) -> Files:
    """Damage a file of a run directory; in most cases its lines are whole, and its checksums fit."""
    run = chance.choice(sorted(path for path in runs.iterdir() if (path / "run.json").exists()))
    files = sorted(
        path for path in run.rglob("*") if path.is_file() and path.relative_to(run).parts[0] not in {"inputs", "logs"}
    )
    weighted = [
        path
        for path in files
        for _ in range(8 if path.parent.name == "journal" else 2 if path.suffix == ".jsonl" else 1)
    ]
    path = chance.choice(weighted)
    text = path.read_bytes()
    name = f"{run.name}/{path.relative_to(run)}"
    if path.suffix not in {".json", ".jsonl"} or chance.random() < 0.25:
        return {name: mutate_text(text, chance)}
    return {name: b"".join(_lines(text, chance)) if path.suffix == ".jsonl" else _document(text, chance)}


def _document(text: bytes, chance: Random) -> bytes:
    tree = json.loads(text)
    return json.dumps(mutate_tree(tree, [tree], chance)).encode()


def _lines(text: bytes, chance: Random) -> Iterator[bytes]:
    records = [json.loads(line) for line in text.splitlines()]
    has_checksums = any("c" in record for record in records)
    for _ in range(chance.choice((1, 1, 2))):
        row = chance.randrange(len(records))
        match chance.randrange(6):
            case 0:
                records.insert(chance.randrange(len(records)), records[row])
            case 1 if len(records) > 1:
                del records[row]
            case 2:
                records.append(records.pop(row))
            case _:
                records[row] = mutate_tree(records[row], records, chance)
    crc = SEED
    for record in records:
        if not has_checksums or not isinstance(record, dict) or len(record) < 2:
            yield json.dumps(record, separators=(",", ":")).encode() + b"\n"
            continue
        record.pop("c", None)
        line, crc = add_checksum(json.dumps(record, separators=(",", ":")).encode(), crc)
        yield line


_MAKERS: Mapping[str, Callable[[Random], Files]] = {
    "config": _configuration,
    "pipeline": _pipeline,
    "wfformat": _trace,
    "graph": _graph_file,
}
KINDS = (*_MAKERS, "journal")
