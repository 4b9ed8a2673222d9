"""Has the kernel hold attempts to their memory, where the keeper was given control groups (v2) of its own to divide.

Like the keeper it knows nothing of Longshore, uses the standard library alone, and is copied into the run directory.
A control group is ours to divide where systemd says that it delegated it (``Delegate=yes``), and nobody but the
keeper and the engine lives in it. Anywhere else, and whenever the kernel refuses, memory is sampled instead.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "cgroups":
    from longshore.engine.keeper.kernel import number_after
else:
    # Beside the keeper, there is no package.
    from kernel import number_after


class Kernel:
    """Where control groups are, and how they are made and removed.

    Parameters
    ----------
    root
        The hierarchy.
    proc
        Where the kernel tells of processes.
    """

    def __init__(self, root: str = "/sys/fs/cgroup", proc: str = "/proc") -> None:
        self.root = root
        self.proc = proc

    def make(self, path: str) -> None:
        """Make a group; its files come with it."""
        os.mkdir(path)

    def remove(self, path: str) -> None:
        """Remove a group that has no process any more; its files go with it."""
        os.rmdir(path)

    def marks(self, path: str) -> bool:
        """Whether systemd says that a group was delegated."""
        try:
            return os.getxattr(path, "user.delegate") == b"1"
        except OSError:
            return False


class Groups:
    """The control groups of attempts, below one that is ours.

    Parameters
    ----------
    own
        Path of ours.
    kernel
        Makes and removes groups.
    """

    def __init__(self, own: str, kernel: Kernel) -> None:
        self.own = own
        self.kernel = kernel
        self.left: set[str] = set()
        """Groups of attempts that are over, and could not be removed yet."""

    def hold(self, name: str, pid: int, memory: int) -> str | None:
        """Put a process, and all it will start, into a group that may use so much memory; the group, if that worked."""
        path = os.path.join(self.own, name)
        try:
            self.kernel.make(path)
            write(path, "memory.max", str(memory))
            # What does not fit is not to be swapped out, and no process of the attempt outlives another.
            for file, text in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                try:
                    write(path, file, text)
                except OSError:
                    # A kernel without swap, or an old one.
                    pass
            write(path, "cgroup.procs", str(pid))
        except OSError:
            self.left.add(path)
            return None
        return path

    def killed(self, path: str) -> bool:
        """Whether the kernel ended anything in a group for want of memory."""
        return (number_after(b"oom_kill ", read(path, "memory.events")) or 0) > 0

    def peak(self, path: str) -> int:
        """The most memory a group had, in bytes; 0 where the kernel does not tell."""
        text = read(path, "memory.peak").strip()
        return int(text) if text.isdigit() else 0

    def end(self, path: str) -> None:
        """Kill what is left in a group, and remove it."""
        try:
            write(path, "cgroup.kill", "1")
        except OSError:
            # A kernel before 5.14; the keeper kills the process group anyway.
            pass
        self.left.add(path)
        for each in list(self.left):
            try:
                self.kernel.remove(each)
            except FileNotFoundError:
                self.left.discard(each)
            except OSError:
                # What was killed is not gone yet: the next end tries again.
                continue
            else:
                self.left.discard(each)


def delegated(kernel: Kernel | None = None) -> Groups | None:
    """The groups of attempts, ready to be made; ``None`` where they are not ours to make."""
    kernel = kernel or Kernel()
    own = own_group(kernel)
    if own is None or not kernel.marks(own) or b"memory" not in read(own, "cgroup.controllers").split():
        return None
    leaf = os.path.join(own, "keeper-%d" % os.getpid())
    moved = [pid for pid in read(own, "cgroup.procs").split() if pid.isdigit()]
    # The engine and the keeper, and nobody else: strangers are not moved about.
    if not {int(pid) for pid in moved} <= {os.getpid(), os.getppid()}:
        return None
    try:
        kernel.make(leaf)
        # A group that has groups with limits below it must have no process of its own.
        for pid in moved:
            write(leaf, "cgroup.procs", pid.decode())
        write(own, "cgroup.subtree_control", "+memory")
    except OSError:
        move_back(own, leaf, moved, kernel)
        return None
    return Groups(own, kernel)


def own_group(kernel: Kernel) -> str | None:
    """Path of the control group this process is in; ``None`` without version 2."""
    for line in read(kernel.proc, "self/cgroup").splitlines():
        if line.startswith(b"0::/"):
            return kernel.root + os.fsdecode(line[3:]).rstrip("/")
    return None


def move_back(own: str, leaf: str, pids: list[bytes], kernel: Kernel) -> None:
    """Undo what was begun."""
    for pid in pids:
        try:
            write(own, "cgroup.procs", pid.decode())
        except OSError:
            pass
    try:
        kernel.remove(leaf)
    except OSError:
        pass


def write(folder: str, name: str, text: str) -> None:
    """Write to a file of the kernel's, in one piece."""
    file = os.open(os.path.join(folder, name), os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def read(folder: str, name: str) -> bytes:
    """A file of the kernel's; empty where it cannot be read."""
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    except OSError:
        return b""
