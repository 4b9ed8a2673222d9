"""Reads the DAG of a BPS submit directory, with the DAGs of its groups, as jobs with parents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from longshore.errors import RunUnreadableError
from longshore.system.reading import read_file

_NODE: Final = re.compile(r'(JOB|FINAL)\s+(\S+)\s+"?([^"\s]+)"?(?:\s+DIR\s+"?([^"\s]+)"?)?(\s+NOOP\b)?', re.IGNORECASE)
_GROUP: Final = re.compile(r'SUBDAG\s+EXTERNAL\s+(\S+)\s+"?([^"\s]+)"?(?:\s+DIR\s+"?([^"\s]+)"?)?', re.IGNORECASE)
_POST: Final = re.compile(r"SCRIPT\s+POST\s+(\S+)\s+\S*subdag_post", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r'SET_JOB_ATTR\s+(\w+)\s*=\s*"?(.*?)"?\s*$', re.IGNORECASE)
_CHECK: Final = "wms_check_status_"
"""Beginning of the node that fails if a job of the group did, and that jobs behind the group wait for."""
_WMS: Final = "wms_"
"""Beginning of the nodes that are no jobs of the workflow."""


class BpsNode(msgspec.Struct, frozen=True, kw_only=True):
    """One job of the DAG."""

    name: str
    description: Path
    """Its submit description."""
    folder: Path
    """Directory of its submit description and its logs."""
    is_final: bool = False


class BpsGroup(msgspec.Struct, kw_only=True):
    """Jobs with a DAG of their own (BPS: ``ordering``)."""

    name: str
    dag: Path
    is_blocking: bool = True
    """Whether jobs behind it wait for its success; else for its end."""
    jobs: list[str] = msgspec.field(default_factory=list)
    previous: list[str] = msgspec.field(default_factory=list)
    """Groups directly before it."""


class BpsDag(msgspec.Struct, kw_only=True):
    """The DAG of a submit directory."""

    path: Path
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    """Attributes of DAGMan's job, such as ``bps_run``."""
    nodes: dict[str, BpsNode] = msgspec.field(default_factory=dict)
    """Jobs by name, parents first, the final job last."""
    parents: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Names of the parents per job."""
    groups: dict[str, BpsGroup] = msgspec.field(default_factory=dict)


def read_dag(path: Path) -> BpsDag:
    """Read a DAG and those of its groups.

    Raises `RunUnreadableError` if a file cannot be read, or if its edges are a cycle.
    """
    dag = BpsDag(path=path)
    edges: dict[str, list[str]] = {}
    _read_lines(dag, path, edges, group=None)
    for group in list(dag.groups.values()):
        _read_lines(dag, group.dag, edges, group=group)
    _link(dag, edges)
    _sort(dag)
    return dag


def _read_lines(dag: BpsDag, path: Path, edges: dict[str, list[str]], *, group: BpsGroup | None) -> None:
    for line in _lines(path):
        word = line[:6].upper()
        if word.startswith("PARENT"):
            before, _, behind = line[6:].partition(" CHILD ")
            for child in behind.split():
                edges.setdefault(child, []).extend(before.split())
        elif word.startswith(("JOB", "FINAL")):
            _read_node(dag, path, line, group)
        elif word.startswith("SUBDAG") and (found := _GROUP.match(line)):
            dag.groups[found[1]] = BpsGroup(name=found[1], dag=_folder(path, found[3]) / found[2])
        elif word.startswith("SCRIPT") and (found := _POST.match(line)) and found[1] in dag.groups:
            dag.groups[found[1]].is_blocking = False
        elif group is None and word.startswith("SET_JO") and (found := _ATTRIBUTE.match(line)):
            dag.attributes[found[1]] = found[2]


def _read_node(dag: BpsDag, path: Path, line: str, group: BpsGroup | None) -> None:
    found = _NODE.match(line)
    if found is None or found[5] or found[2].startswith(_WMS):
        return
    folder = _folder(path, found[4])
    name = found[2]
    dag.nodes[name] = BpsNode(
        name=name, description=folder / found[3], folder=folder, is_final=found[1].upper() == "FINAL"
    )
    if group is not None:
        group.jobs.append(name)


def _folder(dag: Path, given: str | None) -> Path:
    """The directory of a node, which is relative to that of its DAG."""
    return Path(os.path.normpath(dag.parent / (given or ".")))


def _lines(path: Path) -> list[str]:
    try:
        return read_file(path).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error


# --------------------------------------------------------------------------------------------------------------- edges


def _link(dag: BpsDag, edges: Mapping[str, list[str]]) -> None:
    """Set the parents of each job: nodes that are no jobs are replaced by the jobs before them."""
    ends = _group_ends(dag, edges)
    known: dict[str, list[str]] = {}

    def jobs_before(node: str) -> list[str]:
        """Jobs that a node stands for, as a parent."""
        if node in dag.nodes:
            return [node]
        if node not in known:
            known[node] = _unique(_walk_to_jobs(dag, edges, ends, node))
        return known[node]

    for group in dag.groups.values():
        group.previous = [parent for parent in edges.get(group.name, ()) if parent in dag.groups]
        outside = [parent for parent in edges.get(group.name, ()) if parent not in dag.groups]
        before = _unique(job for parent in outside for job in jobs_before(parent))
        members = set(group.jobs)
        for name in group.jobs:
            if not members.intersection(edges.get(name, ())):
                dag.parents[name] = list(before)
    for name in dag.nodes:
        own = [job for parent in edges.get(name, ()) for job in jobs_before(parent)]
        dag.parents[name] = _unique([*dag.parents.get(name, ()), *own])


def _walk_to_jobs(
    dag: BpsDag, edges: Mapping[str, list[str]], ends: Mapping[str, list[str]], node: str
) -> Iterator[str]:
    """Yield the jobs before a node, through empty nodes and those that check a group."""
    seen, waiting = {node}, [node]
    while waiting:
        each = waiting.pop()
        if each in dag.nodes:
            yield each
        elif each in ends:
            yield from ends[each]
        else:
            before = [parent for parent in edges.get(each, ()) if parent not in seen]
            seen.update(before)
            waiting += reversed(before)


def _group_ends(dag: BpsDag, edges: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Jobs of each group that no job of it waits for."""
    ends = {}
    for group in dag.groups.values():
        waited_for = {parent for name in group.jobs for parent in edges.get(name, ())}
        ends[group.name] = [name for name in group.jobs if name not in waited_for]
    return ends


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _sort(dag: BpsDag) -> None:
    """Sort the jobs: parents and earlier groups first, the final job last, else as in the file."""
    group_of = {name: group for group in dag.groups.values() for name in group.jobs}
    # A group whose jobs are all sorted is not looked through again.
    unsorted = {group.name: len(group.jobs) for group in dag.groups.values()}
    done: dict[str, BpsNode] = {}
    under_way: set[str] = set()
    for first in sorted(dag.nodes, key=lambda name: dag.nodes[name].is_final):
        stack = [first]
        while stack:
            name = stack[-1]
            before = list(dag.parents[name])
            if name in group_of:
                earlier = [group for group in group_of[name].previous if unsorted[group] > 0]
                before += [job for group in earlier for job in dag.groups[group].jobs]
            missing = [job for job in before if job not in done]
            if not missing or name in done:
                if name in group_of and name not in done:
                    unsorted[group_of[name].name] -= 1
                done.setdefault(name, dag.nodes[name])
                stack.pop()
                continue
            if name in under_way:
                raise RunUnreadableError(f"'{dag.path}' cannot be read: the nodes before '{name}' are a cycle")
            under_way.add(name)
            stack += missing
    dag.nodes = done
