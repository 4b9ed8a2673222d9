"""Control groups, as far as files can stand in for the kernel: what is written where, and what is left alone.

The files of a group come with it in a real kernel, so the tests make them; what the kernel does about them is its own
affair, and no test here can show it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longshore.keeper.program.cgroups import AttemptCgroups, CgroupFiles, make_attempt_cgroups
from longshore.keeper.program.processes import Processes
from longshore.keeper.program.watchdog import Watchdog

MIB = 1 << 20
ME, PARENT = os.getpid(), os.getppid()


class Files(CgroupFiles):
    """A hierarchy of plain files, in which new groups have theirs.

    Parameters
    ----------
    folder
        Where it is made.
    procs
        Who lives in our group.
    controllers
        What that may divide.
    marked
        Whether it was delegated.
    bare
        Whether new groups lack their files, so that nothing can be written to them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        procs: Sequence[int] = (ME, PARENT),
        controllers: str = "cpu memory pids",
        marked: bool = True,
        bare: bool = False,
    ) -> None:
        super().__init__(str(folder / "cgroup"), str(folder / "proc"))
        self.own = folder / "cgroup" / "user" / "mine"
        self._marked = marked
        self._bare = bare
        self.membership = folder / "proc" / "self" / "cgroup"
        self.membership.parent.mkdir(parents=True)
        self.membership.write_text("0::/user/mine\n", "utf-8")
        self.own.mkdir(parents=True)
        self.give(self.own)
        (self.own / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in procs), "utf-8")
        (self.own / "cgroup.controllers").write_text(controllers, "utf-8")

    def give(self, group: Path) -> None:
        for name in ("cgroup.subtree_control", "cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max"):
            (group / name).touch()
        (group / "memory.oom.group").touch()
        (group / "memory.events").write_text("low 0\nmax 0\noom 0\noom_kill 0\n", "utf-8")
        (group / "memory.peak").write_text("0\n", "utf-8")

    def make(self, path: str) -> None:
        super().make(path)
        if not self._bare:
            self.give(Path(path))

    def remove(self, path: str) -> None:
        for file in Path(path).iterdir():
            file.unlink()
        super().remove(path)

    def is_delegated(self, path: str) -> bool:
        assert path == str(self.own)
        return self._marked


def test_what_is_delegated_is_divided(tmp_path: Path) -> None:
    kernel = Files(tmp_path)
    groups = make_attempt_cgroups(kernel)
    assert groups
    assert groups.own_path == str(kernel.own)
    assert (kernel.own / "cgroup.subtree_control").read_text("utf-8") == "+memory"
    assert (kernel.own / f"keeper-{ME}").is_dir()


LEFT_ALONE: dict[str, dict[str, Any]] = {
    "strangers live in it": {"procs": (ME, PARENT, 1)},
    "no say in memory": {"controllers": "cpu pids"},
    "nobody delegated it": {"marked": False},
    "the kernel refuses": {"bare": True},
}


@pytest.mark.parametrize("options", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_what_is_not_ours_is_left_alone(tmp_path: Path, options: dict[str, Any]) -> None:
    kernel = Files(tmp_path, **options)
    before = sorted(path.name for path in kernel.own.iterdir())
    assert make_attempt_cgroups(kernel) is None
    assert sorted(path.name for path in kernel.own.iterdir()) == before
    assert (kernel.own / "cgroup.subtree_control").read_text("utf-8") == ""


def test_without_version_2_there_is_nothing(tmp_path: Path) -> None:
    kernel = Files(tmp_path)
    kernel.membership.write_text("4:memory:/x\n", "utf-8")
    assert make_attempt_cgroups(kernel) is None


def test_an_attempt_in_a_group_of_its_own(tmp_path: Path) -> None:
    kernel = Files(tmp_path)
    log = tmp_path / "a.1.log"
    dog = Watchdog(Processes(), AttemptCgroups(str(kernel.own), kernel))
    dog.begin(777, {"mem": 110 * MIB, "asked": 100 * MIB, "log": 0}, str(log))
    group = kernel.own / "a.1.log-777"
    assert (group / "memory.max").read_text("utf-8") == str(110 * MIB)
    assert (group / "memory.swap.max").read_text("utf-8") == "0"
    assert (group / "memory.oom.group").read_text("utf-8") == "1"
    assert (group / "cgroup.procs").read_text("utf-8") == "777"
    assert dog.next_check_s() is None, "there is nothing to sample"
    (group / "memory.peak").write_text(f"{110 * MIB}\n", "utf-8")
    (group / "memory.events").write_text("oom 1\noom_kill 3\n", "utf-8")
    said = "the kernel killed it; it requested 100 MiB; its limit is 110 MiB"
    assert dog.unwatch(777, signal.SIGKILL, 5) == {"rss": 110 * MIB, "why": "OOM", "say": said}
    assert log.read_text("utf-8") == f"longshore: OOM: {said}\n"
    assert not group.exists()


def test_where_a_group_cannot_be_had_memory_is_sampled(tmp_path: Path) -> None:
    dog = Watchdog(Processes(), AttemptCgroups(str(tmp_path / "gone"), CgroupFiles()))
    dog.begin(777, {"mem": 1}, "log")
    assert dog.sampled.keys() == {777}
    assert dog.next_check_s() is not None
