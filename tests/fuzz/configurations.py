"""Cases of configurations, of pipelines, and of ``--set`` expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from tests.fuzz.graphs import TRACE, small_trace
from tests.fuzz.kind import LABELS, ROOT, Files, Kind, Step
from tests.fuzz.mutate import SCALARS, alter_tree, mutate_text, mutate_tree
from tests.progress_notes import ProgressNotes

from longshore.config.layers import Overrides, parse_set_options, parse_variables, read_layers
from longshore.config.schemas import configuration_schema
from longshore.plan.configuration import make_draft
from longshore.plan.lint_file import lint_file
from longshore.plan.stages import Stage, run_stages

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


@cache
def yaml_trees() -> tuple[Any, ...]:
    paths = [
        *ROOT.glob("doc/examples/*/*.yaml"),
        *ROOT.glob("etc/starters/*.yaml"),
        *ROOT.glob("tests/data/bps/*.yaml"),
    ]
    trees = (yaml.safe_load(path.read_text("utf-8")) for path in sorted(paths))
    # The service of one example is a package that is not installed.
    return tuple(tree for tree in trees if isinstance(tree, dict) and tree.get("wmsServiceClass") != "minibatch")


def _configuration(chance: Random) -> Files:
    base = dict(chance.choice(yaml_trees()))
    for key in ("computeSite", "pipeline", "pipelineYaml", "qgraphFile", "graphFile", "includeConfigs"):
        base.pop(key, None)
    base["wfformat"] = TRACE
    definitions = configuration_schema()["$defs"]
    for _ in range(chance.randrange(5)):
        section = chance.choice([name for name, entry in definitions.items() if entry.get("properties")])
        keys = definitions[section]["properties"]
        key = chance.choice(list(keys))
        value = value_for(keys[key], chance)
        place = chance.choice(("", "", "payload", "site", "pipetask", "cluster"))
        if not place:
            base[key] = value
        elif place == "payload":
            base[place] = {**(base.get(place) or {}), key: value}
        else:
            base[place] = {chance.choice(LABELS): {key: value}}
    tree = mutate_tree(base, yaml_trees(), chance) if chance.random() < 0.5 else base
    return {"run.yaml": dump(tree, chance), TRACE: small_trace(chance)}


def value_for(schema: Mapping[str, Any], chance: Random) -> Any:
    """Return a value that the schema of a key often accepts."""
    if chance.random() < 0.25:
        return chance.choice(SCALARS)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    kinds = schema.get("type", "string")
    kind = chance.choice(kinds if isinstance(kinds, list) else [kinds])
    if kind == "object":
        keys = schema.get("properties", {})
        return {name: value_for(keys[name], chance) for name in keys if chance.random() < 0.5} or {"a": 1}
    if kind == "array":
        return [value_for(schema.get("items", {}), chance) for _ in range(chance.randrange(4))]
    choices = {"number": (0, 1, 5, 2.5, -1, 1e6), "integer": (0, 1, 5, -1), "boolean": (True, False), "null": (None,)}
    return chance.choice(
        choices.get(kind, ("a", "8G", "{label}", "1h", "true", "ALWAYS", "x/{name}", "${HOME}", "r, i"))
    )


def dump(tree: Any, chance: Random) -> bytes:
    try:
        text = yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")
    except yaml.YAMLError:
        text = b"a: 1\n"
    return mutate_text(text, chance) if chance.random() < 0.1 else text


def _changed(tree: Any, chance: Random) -> Any:
    return alter_tree(tree, chance) if chance.random() < 0.7 else mutate_tree(tree, yaml_trees(), chance)


def _pipeline(chance: Random) -> Files:
    if chance.random() < 0.5:
        bases = [tree for tree in yaml_trees() if "pipeline" in tree]
        tree = _changed(chance.choice(bases), chance)
    else:
        tree = {"pipeline": _random_pipeline(chance)}
        if chance.random() < 0.4:
            tree["payload"] = {"dataQuery": _query(chance)}
        if chance.random() < 0.3:
            tree = _changed(tree, chance)
    return {"run.yaml": dump(tree, chance), "table.csv": b"visit,band\n1,r\n2,i\n", "texts/a.txt": b"a\n"}


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
    for label in chance.sample(LABELS, chance.randrange(1, 5)):
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


def _steps(parse: Step) -> Iterator[Step]:
    path = Path("run.yaml")
    yield parse
    yield lambda: lint_file(path, now=0.0)
    yield lambda: run_stages(path, Stage.TRANSFORM, progress=ProgressNotes())


CONFIGURATION = Kind(
    make=lambda chance, _: _configuration(chance),
    steps=lambda _: _steps(lambda: make_draft(read_layers(Path("run.yaml"), now=0.0))),
)
PIPELINE = Kind(
    make=lambda chance, _: _pipeline(chance),
    steps=lambda _: _steps(lambda: run_stages(Path("run.yaml"), Stage.ACQUIRE, progress=ProgressNotes())),
)


# ------------------------------------------------------------------------------------------------------ --set, --var


def _set_options(chance: Random) -> Files:
    """Make one to four expressions, a line each: most name keys of the schema."""
    definitions = configuration_schema()["$defs"]
    lines = []
    for _ in range(chance.randrange(1, 5)):
        keys = chance.choice([entry["properties"] for entry in definitions.values() if entry.get("properties")])
        key = chance.choice(list(keys))
        path = chance.choice(("{}", "{}", ".{}", "site.local.{}", "pipetask.a.{}", "/pipetask/a/{}", "payload.{}"))
        value = value_for(keys[key], chance)
        text = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n...\n").strip()
        lines.append(f"{path.format(key)}={text}".encode("utf-8", "replace").replace(b"\n", b" "))
    joined = b"\n".join(lines)
    joined = mutate_text(joined, chance) if chance.random() < 0.3 else joined
    return {"set.txt": joined, "run.yaml": b"wfformat: graph.json\n", TRACE: small_trace(chance)}


def _set_steps(files: Files) -> Iterator[Step]:
    pairs = tuple(line.decode("utf-8", "surrogateescape") for line in files["set.txt"].split(b"\n"))
    yield lambda: parse_set_options(pairs)
    yield lambda: parse_variables(pairs)
    for imports_code in (False, True):
        overrides = Overrides(sets=pairs, imports_code=imports_code)
        yield lambda overrides=overrides: lint_file(Path("run.yaml"), overrides, now=0.0)  # type: ignore[misc]
    yield lambda: run_stages(Path("run.yaml"), Stage.TRANSFORM, overrides, progress=ProgressNotes())


SET_OPTIONS = Kind(make=lambda chance, _: _set_options(chance), steps=_set_steps)
