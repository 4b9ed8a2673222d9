#!/usr/bin/env python3
"""Waits, as the PRE script of a DAG node, until all jobs of a group are over, successful or not.

DAGMan starts no node behind a failed one. Between two groups that do not block each other is a node with this PRE
script. It waits until each job of the first group has succeeded, has failed for good, or can never run because an
ancestor failed. Then the second group may start, and failed jobs remain failed.

It is installed beside the DAG as ``gate`` and runs there, under Python 3.6 or later with the standard library alone.
The reason is in decision 0050.
"""

import os
import re
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DAG = "run.dag"
CHUNK_BYTES = 1 << 22
POLL_S = 0.5
"""Seconds between two polls of the logs."""

REMOVALS_ONLY = "201"
"""Exit status by which a POST script tells DAGMan not to retry; only removed jobs are retried then."""
SUBMITTED, TERMINATED, ABORTED = b"000", b"005", b"009"
END = b"\n...\n"
RECORD = re.compile(rb"\n?(\d{3}) \((\d+)\.")
NODE = re.compile(rb'DAGNodeName = "([^"]*)"|DAG Node: (\S+)')
NOT_BY_PERSON = re.compile(rb"evaluated to TRUE|longshore cancel|OtherJobRemoveRequirements|DAG Removed")
"""Reasons of removals that no person made."""
RETURNED = re.compile(rb"Normal termination \(return value (-?\d+)\)")
BANNER = b"(CONDOR_DAGMAN) STARTING UP"
"""DAGMan's first message; earlier messages are about an earlier process."""
FAILED_NODE = re.compile(
    rb"Shortcutting node (\S+) retries because of submit failure|PRE Script of (?:Node|Job) (\S+) failed", re.IGNORECASE
)
"""DAGMan's messages on nodes that fail without a record in the log."""

INCLUDE = re.compile(r'INCLUDE\s+"?([^"\n]+?)"?\s*$', re.IGNORECASE)
AFTER = re.compile(r'after\d+="([^"]*)"')
RETRY = re.compile(r"RETRY\s+(\S+)\s+(\d+)(?:\s+UNLESS-EXIT\s+(-?\d+))?", re.IGNORECASE)
DONE = re.compile(r"(?:JOB\s+(\S+)\s.*\sDONE|DONE\s+(\S+))\s*$", re.IGNORECASE)


def dag_lines(path: Path) -> "Iterator[str]":
    """The lines of a DAG and of the files it includes."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            include = INCLUDE.match(line)
            if include:
                yield from dag_lines(path.parent / include.group(1))
            else:
                yield line


def last_rescue(folder: Path) -> "Iterator[str]":
    """The lines of the rescue file that DAGMan reads: the one with the highest number."""
    for path in sorted(folder.glob(DAG + ".rescue[0-9][0-9][0-9]"))[-1:]:
        yield from dag_lines(path)


class GrowingFile:
    """A file that another process appends to; it need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read_new(self, end: bytes) -> "Iterator[bytes]":
        """Yield the new text up to the last `end`, in pieces that each finish with it."""
        try:
            if self._path.stat().st_size <= self._offset:
                return
            with self._path.open("rb") as file:
                file.seek(self._offset)
                rest = b""
                for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
                    rest += chunk
                    complete = rest.rfind(end) + len(end) if end in rest else 0
                    self._offset += complete
                    yield rest[:complete]
                    rest = rest[complete:]
        except FileNotFoundError:
            return


class BarrierFollower:
    """The barrier between two groups: follows DAGMan's logs in `folder` for the node `name`."""

    def __init__(self, name: str, folder: Path) -> None:
        self._dag = folder / DAG
        self._remaining = set()  # type: set[str]
        self._finished = set()  # type: set[str]
        self._retries = {}  # type: dict[str, tuple[int, str]]
        self._failures = {}  # type: dict[str, int]
        self._node_of = {}  # type: dict[bytes, str]
        self._children = None  # type: dict[str, list[str]] | None
        self._log = GrowingFile(folder / (DAG + ".nodes.log"))
        self._messages = GrowingFile(folder / (DAG + ".dagman.out"))
        for line in dag_lines(self._dag):
            self._read_line(name, line)
        for line in last_rescue(folder):
            self._read_line(name, line)
        self._remaining -= self._finished

    def _read_line(self, name: str, line: str) -> None:
        """Parse a line of the DAG, or of its rescue file."""
        if line.startswith("VARS " + name + " "):
            for names in AFTER.findall(line):
                self._remaining.update(names.split())
        retry = RETRY.match(line)
        if retry:
            self._retries[retry.group(1)] = int(retry.group(2)), retry.group(3) or ""
        done = DONE.match(line)
        if done:
            self._finished.add(done.group(1) or done.group(2))

    def is_open(self) -> bool:
        """Whether all jobs of the group are over, according to the logs."""
        for text in self._log.read_new(END):
            for record in text.split(END):
                self._read_record(record)
        failed_nodes = []  # type: list[tuple[bytes, bytes]]
        for message in self._messages.read_new(b"\n"):
            if BANNER in message:
                failed_nodes.clear()
            failed_nodes += FAILED_NODE.findall(message, max(0, message.rfind(BANNER)))
        for names in failed_nodes:
            self._fail(b"".join(names).decode())
        return not self._remaining

    def _read_record(self, text: bytes) -> None:
        """Process one record of the log."""
        record = RECORD.match(text)
        if not record:
            return
        kind, job = record.groups()
        if kind == SUBMITTED:
            node = NODE.search(text)
            if node:
                self._node_of[job] = (node.group(1) or node.group(2)).decode()
        elif kind in (TERMINATED, ABORTED) and job in self._node_of:
            returned = RETURNED.search(text) if kind == TERMINATED else None
            code = returned.group(1).decode() if returned else ""
            name = self._node_of.pop(job)
            is_removed = kind == ABORTED and not NOT_BY_PERSON.search(text)
            if code != "0" and not is_removed and self._retries.get(name, (0, ""))[1] == REMOVALS_ONLY:
                code = REMOVALS_ONLY
            self._end_attempt(name, code)

    def _end_attempt(self, node: str, code: str) -> None:
        """A job of a node ended, with an exit code or without (``""``)."""
        if code == "0":
            self._finish(node)
            return
        self._failures[node] = self._failures.get(node, 0) + 1
        retries, unless = self._retries.get(node, (0, ""))
        if self._failures[node] > retries or (unless and code == unless):
            self._fail(node)

    def _finish(self, node: str) -> None:
        self._finished.add(node)
        self._remaining.discard(node)

    def _fail(self, node: str) -> None:
        """A node failed for good; its descendants can never run."""
        if self._children is None:
            self._children = self._read_children()
        pruned = [node]
        while pruned:
            pruned_node = pruned.pop()
            if pruned_node not in self._finished:
                self._finish(pruned_node)
                pruned += self._children.get(pruned_node, [])

    def _read_children(self) -> "dict[str, list[str]]":
        """The children of each node; parsed only after a failure, when they first matter."""
        children = {}  # type: dict[str, list[str]]
        for line in dag_lines(self._dag):
            if line.startswith("PARENT "):
                before, _, after = line[len("PARENT ") :].partition(" CHILD ")
                for parent in before.split():
                    children.setdefault(parent, []).extend(after.split())
        return children


def main(arguments: "list[str]") -> int:
    """Wait until the group is over; the only argument is the name of the node."""
    dagman = os.getppid()
    barrier = BarrierFollower(arguments[0], Path())
    while not barrier.is_open():
        time.sleep(POLL_S)
        if os.getppid() != dagman:
            # DAGMan is gone; a new one starts its own script.
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
