"""Control groups (cgroup v2): memory limits of attempts enforced by the kernel, where systemd delegated a group.

Like the keeper it knows nothing of Longshore, uses the standard library alone, and is copied into the run directory.
The keeper may divide a control group that systemd marks as delegated (``Delegate=yes``) and that holds no processes but
the keeper, its guard and the engine. Anywhere else, and whenever the kernel refuses, memory is sampled instead.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "cgroups":
    from longshore.keeper.program.kernel import number_after, read_file, system
else:
    # The copy beside the keeper is not in a package.
    from kernel import number_after, read_file, system


class CgroupFiles:
    """The kernel's control group files: makes and removes groups.

    Parameters
    ----------
    root
        The hierarchy.
    proc
        Mount point of procfs.
    """

    def __init__(self, root: str = "/sys/fs/cgroup", proc: str = "/proc") -> None:
        self.root = root
        self.proc = proc

    def make(self, path: str) -> None:
        """Make a group; its files come with it."""
        system.mkdir(path)

    def remove(self, path: str) -> None:
        """Remove a group without processes; its files go with it."""
        system.rmdir(path)

    def is_delegated(self, path: str) -> bool:
        """Return whether systemd marks a group as delegated."""
        try:
            return system.getxattr(path, "user.delegate") == b"1"
        except OSError:
            return False


class AttemptCgroups:
    """Control groups of attempts, below the keeper's own.

    Parameters
    ----------
    own_path
        Path of the keeper's group.
    cgroup_files
        Makes and removes groups.
    """

    def __init__(self, own_path: str, cgroup_files: CgroupFiles) -> None:
        self.own_path = own_path
        self.cgroup_files = cgroup_files
        self.unremoved: set[str] = set()
        """Groups of ended attempts that could not be removed yet."""

    def limit_memory(self, name: str, pid: int, memory: int) -> str | None:
        """Put a process, with its later children, into a group of limited memory; return it, or ``None`` on failure."""
        path = os.path.join(self.own_path, name)
        try:
            self.cgroup_files.make(path)
            write(path, "memory.max", str(memory))
            # No swap beyond the limit, and an OOM kill ends all processes of the attempt.
            for file, text in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                try:
                    write(path, file, text)
                except OSError:
                    # A kernel without swap, or an old one.
                    pass
            write(path, "cgroup.procs", str(pid))
        except OSError:
            self.unremoved.add(path)
            return None
        return path

    def was_oom_killed(self, path: str) -> bool:
        """Return whether the kernel killed a process of a group for lack of memory (OOM)."""
        return (number_after(b"oom_kill ", read(path, "memory.events")) or 0) > 0

    def peak(self, path: str) -> int:
        """Return the peak memory of a group, in bytes; 0 if unknown."""
        text = read(path, "memory.peak").strip()
        return int(text) if text.isdigit() else 0

    def remove(self, path: str) -> None:
        """Kill the processes that are left in a group, and remove it."""
        try:
            write(path, "cgroup.kill", "1")
        except OSError:
            # A kernel before 5.14; the keeper kills the process group anyway.
            pass
        self.unremoved.add(path)
        for each in list(self.unremoved):
            try:
                self.cgroup_files.remove(each)
            except FileNotFoundError:
                self.unremoved.discard(each)
            except OSError:
                # Killed processes are not gone yet: the next end tries again.
                continue
            else:
                self.unremoved.discard(each)


def make_attempt_cgroups(cgroup_files: CgroupFiles | None = None) -> AttemptCgroups | None:
    """Prepare this process's control group for attempts; ``None`` if it was not delegated."""
    cgroup_files = cgroup_files or CgroupFiles()
    own_path = find_own_cgroup(cgroup_files)
    if (
        own_path is None
        or not cgroup_files.is_delegated(own_path)
        or b"memory" not in read(own_path, "cgroup.controllers").split()
    ):
        return None
    leaf = os.path.join(own_path, "keeper-%d" % system.getpid())
    pids = [pid for pid in read(own_path, "cgroup.procs").split() if pid.isdigit()]
    guard = system.getppid()
    # The engine, the guard and the keeper only: other processes must not be moved.
    if not {int(pid) for pid in pids} <= {system.getpid(), guard, find_parent(guard, cgroup_files)}:
        return None
    try:
        cgroup_files.make(leaf)
        # A group whose children have limits must have no process of its own.
        for pid in pids:
            write(leaf, "cgroup.procs", pid.decode())
        write(own_path, "cgroup.subtree_control", "+memory")
    except OSError:
        move_back(own_path, leaf, pids, cgroup_files)
        return None
    return AttemptCgroups(own_path, cgroup_files)


def find_parent(pid: int, cgroup_files: CgroupFiles) -> int:
    """Return the parent of a process; its own number if it is unknown."""
    fields = read(cgroup_files.proc, "%d/stat" % pid).rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else pid


def find_own_cgroup(cgroup_files: CgroupFiles) -> str | None:
    """Return the path of this process's control group; ``None`` without version 2."""
    for line in read(cgroup_files.proc, "self/cgroup").splitlines():
        if line.startswith(b"0::/"):
            return cgroup_files.root + os.fsdecode(line[3:]).rstrip("/")
    return None


def move_back(own_path: str, leaf: str, pids: list[bytes], cgroup_files: CgroupFiles) -> None:
    """Undo the preparation of a delegated group."""
    for pid in pids:
        try:
            write(own_path, "cgroup.procs", pid.decode())
        except OSError:
            pass
    try:
        cgroup_files.remove(leaf)
    except OSError:
        pass


def write(folder: str, name: str, text: str) -> None:
    """Write to a file of the kernel's, in one piece."""
    file = system.open(os.path.join(folder, name), os.O_WRONLY)
    try:
        system.write(file, text.encode())
    finally:
        system.close(file)


def read(folder: str, name: str) -> bytes:
    """Read a file of the kernel's; empty where it cannot be read."""
    try:
        return read_file(os.path.join(folder, name))
    except OSError:
        return b""
