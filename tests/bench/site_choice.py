"""Prints what a match of 1,000 sites of 1,000 nodes costs: cold with the profiles' files, and warm.

Usage: python -m tests.bench.site_choice [SITES]

Two kinds of profiles are compared in the same run: graphs with equal nodes and a count, and, for fewer sites, graphs in
JSON Graph Format that list every node.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from longshore.config.layers import Overrides, read_layers
from longshore.plan.site_choice import ask_for_site, decide

NODES = 1000
NESTED = """title: Site {number}
service: local
limits: {{cpus: 128, memory: 480 GiB}}
partitions:
  - {{name: short, cpus: 64, memory: 240 GiB, walltime: "4:00:00"}}
  - {{name: large, cpus: 128, memory: 480 GiB, walltime: "2-00:00:00"}}
siteState: {{cost: {cost}, nodes_free: {number}}}
resourceGraph:
  subsystems: {{software: {{stack: "0.5.{number}"}}}}
  with: [{{type: node, count: {nodes}, with: [{{type: core, count: 64}}]}}]
"""
RUN = """pipeline: {tasks: {one: {command: 'true'}}}
requestCpus: 8
computeSite: auto
siteSelection:
  match: {requires: [{subsystem: software, name: stack, range: {min: "0.5.1"}}]}
  select: {name: constraint, priorities: [[{filter: "nodes_free > 0"}, {sort_ascending: cost}, {select: first}]]}
"""


def write_sites(folder: Path, count: int, *, listed: bool) -> None:
    """Write profiles of sites; with `listed`, their graphs list every node and core."""
    folder.mkdir()
    for number in range(count):
        text = NESTED.format(number=number, cost=(number * 7) % count, nodes=NODES)
        if listed:
            text = text.partition("resourceGraph:")[0] + f"resourceGraph: graph-{number}.json\n"
            (folder / f"graph-{number}.json").write_text(json.dumps(graph()), "utf-8")
        (folder / f"site-{number}.yaml").write_text(text, "utf-8")


def graph() -> dict[str, object]:
    """Return a cluster in JSON Graph Format, in which each node has a vertex for its cores."""
    nodes: dict[str, object] = {"0": {"metadata": {"type": "cluster"}}}
    edges = []
    for node in range(NODES):
        nodes[f"n{node}"] = {"metadata": {"type": "node", "rank": node}}
        nodes[f"c{node}"] = {"metadata": {"type": "core", "size": 64, "uniq_id": node}}
        nodes[f"s{node}"] = {
            "metadata": {"type": "package", "name": "stack", "version": "0.5.2", "subsystem": "software"}
        }
        edges += [{"source": "0", "target": f"n{node}", "relation": "contains"}]
        edges += [{"source": f"n{node}", "target": f"{kind}{node}", "relation": "contains"} for kind in "cs"]
    return {"graph": {"nodes": nodes, "edges": edges}}


def measure(folder: Path, count: int) -> None:
    """Print the seconds of a cold choice, of later ones by other commands, and of three warm ones."""
    run = folder.parent / "run.yaml"
    run.write_text(RUN, "utf-8")
    layers = read_layers(run, Overrides({"sitePath": str(folder)}), now=0.0)
    for state in ("cold", "files read before", "files read before"):
        began, processor = time.perf_counter(), time.process_time()
        question = ask_for_site(layers)
        assert question is not None
        decision = decide(question, now=0.0)
        matching = sum(each.matches for each in decision.candidates)
        print(f"  {count} sites, {matching} match, {state}: {_since(began, processor)}")
    assert question is not None
    for _ in range(3):
        began, processor = time.perf_counter(), time.process_time()
        assert decide(question, now=0.0).site == decision.site
        print(f"  warm: {_since(began, processor)}")


def _since(began: float, processor: float) -> str:
    return f"{time.perf_counter() - began:.2f} s, of a processor {time.process_time() - processor:.2f} s"


def main() -> None:
    """Measure both kinds."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name
        for title, listed, sites in (("nodes with a count", False, count), ("every node listed", True, count // 20)):
            print(title)
            folder = Path(name) / title.replace(" ", "-")
            write_sites(folder, sites, listed=listed)
            measure(folder, sites)


if __name__ == "__main__":
    main()
