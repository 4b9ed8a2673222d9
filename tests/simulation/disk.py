"""Simulated disk: real files in memory, and beside them what a power loss would leave of them.

The calls have the names and arguments of `os`. Each file has the content that was synced and the writes since; each
folder has the entries that were synced and the changes since. After a power loss, a file has its synced content and
some of the later writes: all, none, the first of them, one of them in part, zeros in place of lost ones. A folder has
its synced entries and the first of the later changes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import stat
from pathlib import Path
from typing import Any, Final

from tests.simulation.plan import Fault
from tests.simulation.universe import Process, Universe

_FIRST_NUMBER: Final = 400
"""Least number of a file: no number comes again soon, so that a late close of a dead process's file hits nothing."""
_PAGE_B: Final = 4096


class File:
    """Content of a file: what was synced, and the writes since (position and bytes; a cut has no bytes)."""

    def __init__(self, content: bytes = b"", mode: int = 0o644) -> None:
        self.synced = bytearray(content)
        self.since: list[tuple[int, bytes | None]] = []
        self.mode = mode
        self.writer = ""
        """The node of the process that made it."""
        self.sizes: list[tuple[float, int]] = []
        """Its size after each write, by time, where readers see writes late."""
        self.synced_at: list[tuple[float, int]] = []
        """Length that was synced, by time."""

    def apply(self, content: bytearray, write: tuple[int, bytes | None]) -> None:
        """Carry out a write."""
        position, data = write
        if data is None:
            del content[position:]
            content.extend(bytes(position - len(content)))
            return
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data

    def sync(self, now: float) -> None:
        """Make the content durable."""
        for write in self.since:
            self.apply(self.synced, write)
        self.since.clear()
        self.synced_at.append((now, len(self.synced)))


class Folder:
    """Entries of a folder: those that were synced, and the changes since, in order; each is one step."""

    def __init__(self, mode: int = 0o755) -> None:
        self.synced: dict[str, int] = {}
        self.since: list[dict[str, int | None]] = []
        self.mode = mode

    def sync(self) -> None:
        """Make the entries durable."""
        for change in self.since:
            _change(self.synced, change)
        self.since.clear()


def _change(entries: dict[str, int], change: dict[str, int | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Disk:
    """Calls on files, for all processes of a universe.

    Parameters
    ----------
    universe
        Decides about faults.
    root
        Folder whose files are subject to power losses.
    """

    def __init__(self, universe: Universe, root: Path) -> None:
        self.universe = universe
        self.root = root
        self.files: dict[int, File] = {}
        self.folders: dict[int, Folder] = {}
        self.snapshots: list[bytes] = []
        """Content of each snapshot that was put in place."""
        self._device = root.stat().st_dev
        self._open: dict[int, Process | None] = {}
        self._aside: dict[Path, Path] = {}
        """Files that are gone, by where they were: whoever has them open writes on."""
        self._left: list[int] = []
        """Files of dead processes, which some object may yet close."""
        self._next = _FIRST_NUMBER
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50
        self.losses = 0
        self.sync_all()

    # ---------------------------------------------------------------------------------------------------------- model

    def sync_all(self) -> None:
        """Take all files as they are for durable."""
        self.files, self.folders = {}, {}
        for path, folders, names in os.walk(self.root):
            status = Path(path).stat()
            folder = self.folders[status.st_ino] = Folder(stat.S_IMODE(status.st_mode))
            for name in (*folders, *names):
                each = Path(path, name)
                status = each.lstat()
                folder.synced[name] = status.st_ino
                if stat.S_ISREG(status.st_mode):
                    file = self.files[status.st_ino] = File(each.read_bytes(), stat.S_IMODE(status.st_mode))
                    file.synced_at.append((self.universe.elapsed_s, status.st_size))

    def _node(self, path: Any, dir_fd: int | None) -> int | None:
        try:
            status = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        except OSError:
            return None
        return status.st_ino if status.st_dev == self._device else None

    def _place(self, path: Any, dir_fd: int | None) -> tuple[Folder | None, str]:
        """Return the folder of a path, if it is subject to power losses, and the name there."""
        folder, name = os.path.split(os.fspath(path))
        if folder or dir_fd is None:
            node = self._node(folder or ".", dir_fd)
        else:
            status = os.fstat(dir_fd)
            node = status.st_ino if status.st_dev == self._device else None
        return (self.folders.get(node) if node is not None else None), name

    def _file(self, number: int) -> File | None:
        status = os.fstat(number)
        return self.files.get(status.st_ino) if status.st_dev == self._device else None

    def lose_power(self) -> None:
        """Leave of the files what a power loss may leave."""
        lot = self.universe.lot
        contents: dict[int, bytes] = {}
        kept: list[tuple[Path, File]] = []
        root = self.root.stat().st_ino
        gone = self.root.with_name(f"{self.root.name}.lost{self.losses}")
        self.losses += 1
        self.root.rename(gone)
        stack = [(root, self.root)]
        while stack:
            node, path = stack.pop()
            folder = self.folders[node]
            path.mkdir(mode=folder.mode)
            entries = dict(folder.synced)
            for change in folder.since[: lot.choice((0, len(folder.since), lot.randint(0, len(folder.since))))]:
                _change(entries, change)
            for name, child in sorted(entries.items()):
                if child in self.folders:
                    stack.append((child, path / name))
                elif child in self.files:
                    if child not in contents:
                        contents[child] = self._survive(self.files[child])
                    (path / name).write_bytes(contents[child])
                    (path / name).chmod(self.files[child].mode)
                    kept.append((path / name, self.files[child]))
        self.sync_all()
        for each, file in kept:
            new = self.files[each.stat().st_ino]
            new.synced_at = file.synced_at + new.synced_at
        shutil.rmtree(gone)

    def replace_content(self, path: Path, content: bytes | None) -> None:
        """Give a file another content, as damage or a backup does, or none; at once and durably."""
        folder = self.folders[path.parent.stat().st_ino]
        folder.sync()
        if content is None:
            self._aside[path] = path.rename(self.root.with_name(f"{self.root.name}.gone{len(self._aside)}"))
            del folder.synced[path.name]
            return
        if path in self._aside:
            folder.synced[path.name] = self._aside.pop(path).rename(path).stat().st_ino
            return
        path.write_bytes(content)
        status = path.stat()
        folder.synced[path.name] = status.st_ino
        # What was synced of a file that comes back has been synced before.
        file = self.files[status.st_ino] = File(content, stat.S_IMODE(status.st_mode))
        file.synced_at.append((0.0, len(content)))

    def _survive(self, file: File) -> bytes:
        lot = self.universe.lot
        content = bytearray(file.synced)
        if not file.since:
            return bytes(content)
        size = len(content)
        kept = lot.choice((0, len(file.since), lot.randint(0, len(file.since))))
        for write in file.since[:kept]:
            file.apply(content, write)
        rest = file.since[kept:]
        if rest and lot.random() < 0.5:
            position, data = rest[0]
            file.apply(content, (position, data and data[: lot.randint(0, len(data))]))
        if rest and lot.random() < 0.3:
            # The size was written, and the content not.
            whole = bytearray(content)
            for write in rest:
                file.apply(whole, write)
            content.extend(bytes(max(0, len(whole) - len(content))))
        if len(content) - size > 2 * _PAGE_B and lot.random() < 0.3:
            # A page in the middle was not written, and later ones were.
            begin = (size // _PAGE_B + 1) * _PAGE_B
            content[begin : begin + _PAGE_B] = bytes(min(_PAGE_B, len(content) - begin))
        return bytes(content)

    # ---------------------------------------------------------------------------------------------------------- calls

    def _begin(self, op: str, path: Any = "", *, grows: bool = False) -> Fault | None:
        fault = self.universe.call(op, path)
        if fault is not None and fault.kind == "error":
            number = errno.EIO if op == "read" else fault.number
            raise OSError(number, os.strerror(number), os.fsdecode(path))
        if grows and self.universe.elapsed_s < self.universe.full_until_s:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fsdecode(path))
        return fault

    def _reach(self, path: Any) -> None:
        """Wait for the shared files if the node of the current process is cut off from them, or fail."""
        process = self.universe.current
        while process is not None and process.node in self.universe.cut_off:
            until_s, fails = self.universe.cut_off[process.node]
            if self.universe.elapsed_s >= until_s or not self._is_shared(path):
                return
            if fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self.universe.block(until_s - self.universe.elapsed_s)

    def _is_shared(self, path: Any) -> bool:
        if isinstance(path, int):
            return self._file(path) is not None
        return os.fsdecode(path).startswith(f"{self.root}/")

    def _shown(self, number: int) -> int | None:
        """Return how many bytes of an open file the current process sees; ``None`` if the file is not there yet."""
        file, process = self._file(number), self.universe.current
        if file is None or not file.sizes or process is None or process.node == file.writer:
            return os.fstat(number).st_size
        old = [size for at, size in file.sizes if at <= self.universe.elapsed_s - self.universe.plan.late_s]
        return old[-1] if old else None

    def _note_size(self, number: int, file: File) -> None:
        if self.universe.plan.late_s:
            file.sizes.append((self.universe.elapsed_s, os.fstat(number).st_size))

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        creates = bool(flags & os.O_CREAT)
        fault = self._begin("open", path)
        self._reach(path)
        is_new = creates and self._node(path, dir_fd) is None
        number = self._renumber(os.open(path, flags, mode, dir_fd=dir_fd))
        if is_new:
            folder, name = self._place(path, dir_fd)
            if folder is not None:
                status = os.fstat(number)
                new = self.files[status.st_ino] = File(mode=stat.S_IMODE(status.st_mode))
                folder.since.append({name: status.st_ino})
                if self.universe.current is not None:
                    new.writer = self.universe.current.node
                self._note_size(number, new)
        elif flags & os.O_TRUNC and (file := self._file(number)) is not None:
            file.since.append((0, None))
        self.universe.finish(fault)
        if self.universe.plan.late_s and flags & os.O_ACCMODE == os.O_RDONLY and self._shown(number) is None:
            self.close(number)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
        return number

    def _renumber(self, number: int) -> int:
        try:
            new = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, self._next)
        except OSError:
            self._next = _FIRST_NUMBER
            new = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, self._next)
        os.close(number)
        self._next = new + 1 if new < self._most else _FIRST_NUMBER
        process = self.universe.current
        self._open[new] = process
        return new

    def close(self, number: int) -> None:
        process = self.universe.current
        if process is not None and process.is_dead:
            # The kernel has closed it already.
            return
        self._open.pop(number, None)
        os.close(number)

    def close_files_of(self, process: Process) -> None:
        """Close the files of a dead process, as the kernel does; their numbers stay taken until the end."""
        null = os.open(os.devnull, os.O_RDWR)
        for number in [number for number, owner in self._open.items() if owner is process]:
            del self._open[number]
            os.dup2(null, number)
            self._left.append(number)
        os.close(null)

    def close_all(self) -> None:
        """Close all files, once the history is over."""
        for number in (*self._open, *self._left):
            try:
                os.close(number)
            except OSError:
                continue
        self._open.clear()
        self._left.clear()

    def read(self, number: int, size: int) -> bytes:
        self._begin("read")
        self._reach(number)
        return os.read(number, size)

    def pread(self, number: int, size: int, position: int) -> bytes:
        self._begin("read")
        self._reach(number)
        if self.universe.plan.late_s:
            size = max(0, min(size, (self._shown(number) or 0) - position))
        return os.pread(number, size, position)

    def write(self, number: int, data: Any) -> int:
        return self._write(number, bytes(data), None)

    def pwrite(self, number: int, data: Any, position: int) -> int:
        return self._write(number, bytes(data), position)

    def _write(self, number: int, data: bytes, position: int | None) -> int:
        fault = self._begin("write", data[:60].rstrip(b"\n"), grows=True)
        self._reach(number)
        is_cut = fault is not None and (fault.kind == "short" or (fault.kind == "kill" and fault.seconds < 1.0))
        if is_cut and len(data) > 1:
            data = data[: self.universe.lot.randint(1, len(data) - 1)]
        file = self._file(number)
        if file is not None:
            if position is not None:
                begin = position
            elif fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND:
                begin = os.fstat(number).st_size
            else:
                begin = os.lseek(number, 0, os.SEEK_CUR)
            file.since.append((begin, data))
        written = os.write(number, data) if position is None else os.pwrite(number, data, position)
        if file is not None:
            self._note_size(number, file)
        self.universe.finish(fault)
        return written

    def truncate(self, path: Any, length: int) -> None:
        self._begin("write", path)
        node = self._node(path, None)
        os.truncate(path, length)
        if node in self.files:
            self.files[node].since.append((length, None))

    def ftruncate(self, number: int, length: int) -> None:
        self._begin("write")
        os.ftruncate(number, length)
        if (file := self._file(number)) is not None:
            file.since.append((length, None))

    def fsync(self, number: int) -> None:
        fault = self._begin("sync")
        self._reach(number)
        status = os.fstat(number)
        if status.st_dev == self._device:
            if status.st_ino in self.folders:
                self.folders[status.st_ino].sync()
            elif status.st_ino in self.files:
                self.files[status.st_ino].sync(self.universe.elapsed_s)
        self.universe.finish(fault)

    fdatasync = fsync

    def syncfs(self, number: int) -> None:
        fault = self._begin("sync")
        for folder in self.folders.values():
            folder.sync()
        for file in self.files.values():
            file.sync(self.universe.elapsed_s)
        self.universe.finish(fault)

    def rename(self, source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        fault = self._begin("rename", target)
        node = self._node(source, src_dir_fd)
        if os.fspath(target).endswith("status.json") and node in self.files:
            self._note_snapshot(source, src_dir_fd)
        (old, old_name), (new, new_name) = self._place(source, src_dir_fd), self._place(target, dst_dir_fd)
        os.replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if old is not None and old is new:
            old.since.append({old_name: None, new_name: node})
        else:
            if old is not None:
                old.since.append({old_name: None})
            if new is not None and node is not None:
                new.since.append({new_name: node})
        self.universe.finish(fault)

    replace = rename

    def _note_snapshot(self, path: Any, dir_fd: int | None) -> None:
        number = os.open(path, os.O_RDONLY, dir_fd=dir_fd)
        self.snapshots.append(os.read(number, 1 << 20))
        os.close(number)

    def link(
        self,
        source: Any,
        target: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        fault = self._begin("rename", target)
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        folder, name = self._place(target, dst_dir_fd)
        node = self._node(target, dst_dir_fd)
        if folder is not None and node is not None:
            folder.since.append({name: node})
        self.universe.finish(fault)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        fault = self._begin("rename", path)
        folder, name = self._place(path, dir_fd)
        os.unlink(path, dir_fd=dir_fd)
        if folder is not None:
            folder.since.append({name: None})
        self.universe.finish(fault)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        fault = self._begin("rename", path)
        os.mkdir(path, mode, dir_fd=dir_fd)
        folder, name = self._place(path, dir_fd)
        node = self._node(path, dir_fd)
        if folder is not None and node is not None:
            self.folders[node] = Folder(mode & 0o755)
            folder.since.append({name: node})
        self.universe.finish(fault)

    def makedirs(self, path: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        missing = []
        each = Path(path)
        while not each.exists():
            missing.append(each)
            each = each.parent
        if not missing and not exist_ok:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        for each in reversed(missing):
            self.mkdir(each, mode)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        fault = self._begin("rename", path)
        folder, name = self._place(path, dir_fd)
        os.rmdir(path, dir_fd=dir_fd)
        if folder is not None:
            folder.since.append({name: None})
        self.universe.finish(fault)

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        self._begin("stat", path)
        if self.universe.current is not None and os.fspath(path).endswith(".jsonl"):
            self.universe.current.checked_at = self.universe.current.calls
        return os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def listdir(self, path: Any = ".") -> list[str]:
        self._begin("read", path)
        if self.universe.current is not None:
            self.universe.current.checked_at = self.universe.current.calls
        # The order of a real folder depends on the random names of drafts.
        return sorted(os.listdir(path))

    def flock(self, number: int, kind: int) -> None:
        self._begin("lock")
        if kind & fcntl.LOCK_NB or kind & fcntl.LOCK_UN:
            fcntl.flock(number, kind)
            return
        while True:
            try:
                fcntl.flock(number, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self.universe.block(0.01)
            else:
                return
