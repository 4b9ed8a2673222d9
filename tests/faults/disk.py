"""Model of a disk under power failures: which states of a folder can be found after each recorded call.

What `fsync` covered is there. Of the rest, each change of a name is there or not, and each write is there, in part, as
zeros or not at all, independently and in any order. A rename within the disk is never half done. After an `fsync` that
failed, later ones do not save what was written before it: kernels drop such pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from tests.faults.shim import CallClass
from tests.faults.trace import CREATED, Kind, Step


class Write(NamedTuple):
    """Content at an offset; without data, a truncation to the offset."""

    offset: int
    data: bytes | None
    doomed: bool = False
    """Whether an `fsync` failed after it."""

    def covers(self, other: Write) -> bool:
        """Return whether nothing of another write shows after this one."""
        ends = [write.offset + len(write.data or b"") for write in (self, other)]
        return self.data is not None and self.offset <= other.offset and ends[1] <= ends[0]

    def apply(self, content: bytearray, size: int | None = None) -> None:
        """Change a file's content; only the first `size` bytes of the data, if given."""
        data = self.data if size is None or self.data is None else self.data[:size]
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        if data is None:
            del content[self.offset :]
        else:
            content[self.offset : self.offset + len(data)] = data


@dataclass(eq=False)
class File:
    """A file: its durable content and the writes since."""

    durable: bytes = b""
    pending: list[Write] = field(default_factory=list)

    def sync(self) -> None:
        """Make all durable but what an earlier failure may have lost."""
        content = bytearray(self.durable)
        saved = [write for write in self.pending if not write.doomed]
        for write in saved:
            write.apply(content)
        self.durable = bytes(content)
        # What was written again in its place is safe.
        doomed = (write for write in self.pending if write.doomed)
        self.pending = [write for write in doomed if not any(other.covers(write) for other in saved)]

    def doom(self) -> None:
        """Remember that `fsync` failed."""
        self.pending = [write._replace(doomed=True) for write in self.pending]

    def content(self, chosen: Chosen, dice: Random) -> bytes:
        """Return a content that can be found after a power failure."""
        content = bytearray(self.durable)
        if chosen is Chosen.LEAST or not self.pending:
            return bytes(content)
        how = dice.choice(("all", "none", "first", "some", "zeros")) if chosen is Chosen.RANDOM else chosen.value
        last = dice.randrange(len(self.pending)) if how == "first" else len(self.pending)
        for number, write in enumerate(self.pending[: last + 1]):
            if how == "all" or (how == "first" and number < last) or (how == "some" and dice.random() < 0.5):
                write.apply(content)
            elif how == "first" and write.data:
                write.apply(content, dice.randrange(len(write.data)))
            elif how == "zeros" and write.data:
                write._replace(data=bytes(len(write.data))).apply(content)
        return bytes(content)


class Chosen(Enum):
    """Which of the legal states."""

    LEAST = "none"
    """Only what is durable."""
    MOST = "all"
    """Everything."""
    NAMES = "zeros"
    """All names, and zeros where content is not durable."""
    RANDOM = "random"


@dataclass(eq=False)
class Folder:
    """A folder: the names in it that are durable, and all names."""

    durable: dict[str, Node] = field(default_factory=dict)
    names: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = "File | Folder | str"
"""What a name leads to; a text is the target of a symbolic link."""


class Entry(NamedTuple):
    """What a name in a folder leads to after a change; nothing when it is removed."""

    folder: Folder
    name: str
    node: Node | None


Change: TypeAlias = tuple[Entry, ...]
"""Entries that change as one."""


class Disk:
    """A folder on a disk, changed by recorded calls; it begins as the folder is now, all of it durable."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._nodes: dict[int, Node] = {}
        self._pending: list[Change] = []
        self._top = self._read(root)

    def _read(self, path: Path) -> Folder:
        folder = Folder()
        self._nodes[path.stat().st_ino] = folder
        for entry in os.scandir(path):
            if entry.is_dir():
                folder.names[entry.name] = self._read(Path(entry.path))
            else:
                folder.names[entry.name] = self._nodes[entry.inode()] = File(Path(entry.path).read_bytes())
        folder.durable = dict(folder.names)
        return folder

    def apply(self, step: Step) -> None:
        """Carry out a recorded call; what concerns other folders is ignored."""
        if not f"{step.path}/".startswith(f"{self.root}/"):
            return
        match step.kind:
            case Kind.OPEN | Kind.WRITE | Kind.TRUNCATE:
                self._write(step)
            case Kind.SYNC:
                self._sync(self._nodes[step.inode])
            case Kind.SYNC_ALL:
                for each in self._nodes.values():
                    self._sync(each)
            case Kind.FAULT if step.flags == CallClass.SYNC and isinstance(node := self._find(step.path), File):
                node.doom()
            case Kind.FAULT | Kind.SPAWN:
                pass
            case _:
                self._name(step)

    def _write(self, step: Step) -> None:
        if step.kind is Kind.OPEN and step.flags & CREATED:
            self._nodes[step.inode] = made = File()
            self._change((self._entry(step.path, made),))
            return
        node = self._nodes[step.inode]
        assert isinstance(node, File), step
        node.pending.append(Write(step.offset, step.data if step.kind is Kind.WRITE else None))

    def _name(self, step: Step) -> None:
        entry = self._entry(step.path)
        match step.kind:
            case Kind.RENAME:
                self._change((entry, self._entry(step.target, entry.folder.names[entry.name])))
            case Kind.LINK:
                self._change((self._entry(step.target, entry.folder.names[entry.name]),))
            case Kind.UNLINK | Kind.RMDIR:
                self._change((entry,))
            case Kind.MKDIR:
                self._nodes[step.inode] = made = Folder()
                self._change((entry._replace(node=made),))
            case Kind.SYMLINK:
                self._change((entry._replace(node=step.target),))

    def _sync(self, node: Node) -> None:
        if isinstance(node, File):
            node.sync()
        elif isinstance(node, Folder):
            kept = []
            for change in self._pending:
                if any(entry.folder is node for entry in change):
                    _put(change, None)
                else:
                    kept.append(change)
            self._pending = kept

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._top
        for name in Path(path).relative_to(self.root).parts:
            node = node.names.get(name) if isinstance(node, Folder) else None
        return node

    def _entry(self, path: str, node: Node | None = None) -> Entry:
        parent, _, name = path.rpartition("/")
        folder = self._find(parent)
        assert isinstance(folder, Folder), path
        return Entry(folder, name, node)

    def _change(self, change: Change) -> None:
        for folder, name, node in change:
            if node is None:
                del folder.names[name]
            else:
                folder.names[name] = node
        self._pending.append(change)

    def state(self, chosen: Chosen, dice: Random) -> State:
        """Return one legal state."""
        names: dict[int, dict[str, Node]] = {}
        likely = dice.choice((0.1, 0.5, 0.9))
        for change in self._pending:
            if chosen is not Chosen.LEAST and (chosen is not Chosen.RANDOM or dice.random() < likely):
                _put(change, names)
        return dict(_contents("", self._top, names, chosen, dice))

    @property
    def is_durable(self) -> bool:
        """Whether there is only one legal state."""
        files = (node for node in self._nodes.values() if isinstance(node, File))
        return not self._pending and not any(file.pending for file in files)


State: TypeAlias = dict[str, bytes | str | None]
"""Content of each file, target of each link and nothing for each folder, by path below the root."""


def _put(change: Change, copies: dict[int, dict[str, Node]] | None) -> None:
    """Make a change durable; with `copies`, in copies of the folders' durable names."""
    for folder, name, node in change:
        names = folder.durable if copies is None else copies.setdefault(id(folder), dict(folder.durable))
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _contents(
    prefix: str, folder: Folder, changed: dict[int, dict[str, Node]], chosen: Chosen, dice: Random
) -> Iterator[tuple[str, bytes | str | None]]:
    for name, node in changed.get(id(folder), folder.durable).items():
        path = f"{prefix}{name}"
        if isinstance(node, Folder):
            yield path, None
            yield from _contents(f"{path}/", node, changed, chosen, dice)
        elif isinstance(node, File):
            yield path, node.content(chosen, dice)
        else:
            yield path, node


def write_state(state: State, root: Path) -> None:
    """Write a state into an empty folder."""
    for name, content in state.items():
        path = root / name
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def read_state(root: Path) -> State:
    """Read a folder as a state."""
    return {path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes() for path in root.rglob("*")}
