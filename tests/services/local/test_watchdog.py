"""The watchdog in a real keeper, with real processes that eat memory, overrun, flood their logs and will not die."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.services.local.keeper_process import HOG, MIB, Keeper

from longshore.keeper.program.processes import Processes
from longshore.keeper.program.watchdog import Watchdog, WatchedAttempt
from longshore.system.host import is_same_process


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    made = Keeper(tmp_path)
    yield made
    for start in made.said("start"):
        if is_same_process(start["pid"], start["up"]):
            os.killpg(start["pid"], signal.SIGKILL)
    made.process.kill()
    made.process.wait()
    for pipe in (made.process.stdin, made.process.stdout):
        if pipe and not pipe.closed:
            pipe.close()


def hog(keeper: Keeper, mib: int, seconds: float = 60.0, **lim: Any) -> dict[str, Any]:
    return keeper.member(1, sys.executable, "-c", HOG, str(mib), str(seconds), lim=lim)


def shell(keeper: Keeper, line: str, job: int = 1, **lim: Any) -> dict[str, Any]:
    return keeper.member(job, "/bin/sh", "-c", line, lim=lim)


def log_of(keeper: Keeper, job: int = 1) -> str:
    return (keeper.folder / "logs" / f"{job}.log").read_text("utf-8")


def test_too_much_memory_ends_an_attempt_at_once(keeper: Keeper) -> None:
    keeper.run(hog(keeper, 120, mem=64 * MIB, asked=60 * MIB, grace=60.0))
    end = keeper.end_of(1)
    assert end["why"] == "OOM"
    assert os.WTERMSIG(end["s"]) == signal.SIGKILL
    # It goes on eating between the sample and its end.
    assert re.fullmatch(r"it used \d+ MiB; it requested 60 MiB; its limit is 64 MiB", end["say"])
    assert 64 * MIB < end["rss"] < 200 * MIB
    assert log_of(keeper) == f"longshore: OOM: {end['say']}\n"


def test_memory_within_the_limit_is_left_alone_and_its_peak_told(keeper: Keeper) -> None:
    keeper.run(hog(keeper, 60, 1.0, mem=200 * MIB))
    end = keeper.end_of(1)
    assert end["s"] == 0
    assert "why" not in end
    assert 60 * MIB < end["rss"] < 100 * MIB


def test_the_memory_of_all_processes_counts(keeper: Keeper) -> None:
    """Three of 40 MiB each, one of them in a session of its own, none of which is too large alone."""
    python = f"'{sys.executable}' -c '{HOG}' 40 60"
    keeper.run(shell(keeper, f"{python} & setsid {python} & {python}", mem=100 * MIB))
    end = keeper.end_of(1)
    assert end["why"] == "OOM"
    assert end["rss"] > 100 * MIB


def test_what_went_into_a_session_of_its_own_is_killed_with_the_attempt(keeper: Keeper) -> None:
    line = f"setsid sleep 1000 & echo $!; exec '{sys.executable}' -c '{HOG}' 100 60"
    keeper.run(shell(keeper, line, mem=50 * MIB))
    assert keeper.end_of(1)["why"] == "OOM"
    # `setsid` becomes the program it runs.
    away = int(log_of(keeper).split()[0])
    keeper.until(lambda: not Path(f"/proc/{away}/stat").exists() or " Z " in Path(f"/proc/{away}/stat").read_text())


def test_pages_that_processes_share_count_once(keeper: Keeper) -> None:
    """Four processes that share 80 MiB are 320 MiB to whoever adds up what each has."""
    shared = "import mmap, os, time; m = mmap.mmap(-1, 80 << 20); m.write(bytes(80 << 20)); "
    forks = "[os.fork() for _ in range(2)]; sum(m[i] for i in range(0, 80 << 20, 4096)); time.sleep(1.5)"
    keeper.run(keeper.member(1, sys.executable, "-c", shared + forks, lim={"mem": 150 * MIB}))
    end = keeper.end_of(1)
    assert end["s"] == 0, log_of(keeper)
    assert 80 * MIB < end["rss"] < 150 * MIB


def test_copied_pages_count_once_as_well(keeper: Keeper) -> None:
    """What a process has alone is shared once it forks, which only the kernel's exact sum knows."""
    private = "import os, time; held = bytearray(80 << 20); held[::4096] = bytes(len(held[::4096])); "
    forks = "[os.fork() for _ in range(2)]; time.sleep(1.5)"
    keeper.run(keeper.member(1, sys.executable, "-c", private + forks, lim={"mem": 150 * MIB}))
    end = keeper.end_of(1)
    assert end["s"] == 0, log_of(keeper)
    assert end["rss"] < 150 * MIB


def test_a_process_that_has_no_memory_of_its_own_yet_counts_for_nothing(keeper: Keeper) -> None:
    """Between vfork and exec, where the open of a pipe keeps it, a process lives in the memory of its parent."""
    pipe = keeper.folder / "pipe"
    os.mkfifo(pipe)
    holds = "import os; held = bytearray(100 << 20); held[::4096] = bytes(len(held[::4096])); print(1, flush=True); "
    starts = (
        f"os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, {str(pipe)!r}, 0, 0)])"
    )
    keeper.run(keeper.member(1, sys.executable, "-c", holds + starts, lim={"mem": 150 * MIB}))
    keeper.until(lambda: (keeper.folder / "logs" / "1.log").exists() and log_of(keeper) == "1\n")
    # It is looked at several times a second.
    time.sleep(1.0)
    # Whoever opens it in both directions does not wait for anybody.
    writer = os.open(pipe, os.O_RDWR)
    end = keeper.end_of(1)
    os.close(writer)
    assert end["s"] == 0, log_of(keeper)
    assert end["rss"] < 150 * MIB


def test_time_is_up(keeper: Keeper) -> None:
    # Long enough for the trap to be set on a busy machine.
    keeper.run(shell(keeper, "trap 'echo bye; exit 7' TERM; while :; do sleep 0.05; done", wall=1.5, grace=60.0))
    end = keeper.end_of(1)
    assert (end["why"], end["say"]) == ("WALLTIME", "it ran for 1.5 s, the run time that it requested")
    assert os.waitstatus_to_exitcode(end["s"]) == 7, "it was asked to end, and did so its own way"
    assert log_of(keeper).splitlines()[0] == f"longshore: WALLTIME: {end['say']}"
    assert "bye" in log_of(keeper)


def test_whoever_is_deaf_is_killed(keeper: Keeper) -> None:
    line = "trap '' TERM; trap 'echo interrupted' INT; while :; do sleep 0.05; done"
    keeper.run(shell(keeper, line, wall=1.5, sig=[signal.SIGTERM, signal.SIGINT], grace=0.5))
    end = keeper.end_of(1)
    assert end["why"] == "WALLTIME"
    assert os.WTERMSIG(end["s"]) == signal.SIGKILL
    assert "interrupted" in log_of(keeper), "signals are sent one after another"
    assert end["run"] >= 2.5


def test_an_attempt_that_is_done_in_time_is_none_of_its_business(keeper: Keeper) -> None:
    keeper.run(shell(keeper, "true", wall=1.5), shell(keeper, "sleep 2", job=2))
    assert keeper.end_of(1)["s"] == 0
    end = keeper.end_of(2)
    assert (end["s"], end.get("why")) == (0, None)


def test_a_flood_of_words_is_stopped(keeper: Keeper) -> None:
    keeper.run(shell(keeper, "exec yes", log=MIB, grace=5.0))
    end = keeper.end_of(1)
    assert end["why"] == "OUTPUT"
    assert end["say"].endswith(" MiB, and maxLogSize is 1.0 MiB")


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["heeds SIGTERM", "ignores SIGTERM"])
def test_a_log_that_was_too_large_is_brought_back_to_its_limit(keeper: Keeper, trap: str) -> None:
    line = f"{trap}echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; while :; do echo more; done"
    keeper.run(shell(keeper, line, log=20 * MIB, grace=60.0))
    end = keeper.end_of(1)
    assert end["why"] == "OUTPUT"
    log = keeper.log(1)
    assert 19 * MIB < len(log) <= 20 * MIB
    assert log.startswith(b"first\nxxx")
    cut = re.search(rb"\nlongshore: ([0-9]+) bytes were cut here, because of maxLogSize\n", log)
    assert cut
    assert int(cut[1]) > 0
    *_, last = log.splitlines()
    assert last.decode() == f"longshore: OUTPUT: {end['say']}"
    size = float(end["say"].split()[3])
    assert size >= 20, "it says how large the log was"


def test_a_flood_is_ended_soon_after_its_log_passes_the_limit(keeper: Keeper) -> None:
    keeper.run(shell(keeper, "trap '' TERM; while :; do echo word; done", log=MIB // 8, grace=60.0))
    path = keeper.folder / "logs" / "1.log"
    keeper.until(lambda: (path.exists() and path.stat().st_size > MIB // 8) or keeper.said("end"))
    passed = time.time()
    end = keeper.end_of(1)
    assert end["why"] == "OUTPUT"
    # An idle machine takes less than a second; a busy one may take longer. The grace would be a minute.
    assert end["t"] - passed < 10


def test_fast_growth_is_looked_at_more_often(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(bytes(1000))
    dog = Watchdog(Processes())
    watched = WatchedAttempt(0, {"log": 2000}, str(log))
    assert dog.check_log_size(watched, 1.0) == pytest.approx(0.25)
    log.write_bytes(bytes(1900))
    assert dog.check_log_size(watched, 1.1) == pytest.approx(0.01)
    log.write_bytes(bytes(1910))
    assert dog.check_log_size(watched, 1.2) == pytest.approx(0.25)


def test_an_attempt_without_limits_has_the_default_for_its_log() -> None:
    assert WatchedAttempt(1, {}, "log").most_log == 1 << 30
    assert WatchedAttempt(1, {"log": 0}, "log").most_log == float("inf")


def test_logs_without_limits_of_their_own_are_watched(keeper: Keeper) -> None:
    order = keeper.member(1, "/bin/sh", "-c", "truncate -s 2G $0; exec sleep 60", str(keeper.folder / "logs" / "1.log"))
    keeper.run(order)
    end = keeper.end_of(1)
    assert end["why"] == "OUTPUT"
    assert "2048.0 MiB, and maxLogSize is 1024.0 MiB" in end["say"]
    assert (keeper.folder / "logs" / "1.log").stat().st_size <= 1 << 30


KEPT = {
    "a failure's, of failures": ("failed", "echo x >$TMPDIR/x; exit 3", True),
    "a success's, of failures": ("failed", "echo x >$TMPDIR/x", False),
    "a success's, of all": ("all", "echo x >$TMPDIR/x", True),
    "an empty one": ("all", "exit 3", False),
}


@pytest.mark.parametrize(("which", "line", "kept"), KEPT.values(), ids=KEPT.keys())
def test_a_temporary_directory_is_kept(keeper: Keeper, which: str, line: str, kept: bool) -> None:
    keeper.run(shell(keeper, line, tmp=which))
    end = keeper.end_of(1)
    keeper.drain()
    assert not keeper.tmp.exists(), "that of all attempts is gone"
    if kept:
        assert (Path(end["tmp"]) / "x").read_text("utf-8") == "x\n"
        assert Path(end["tmp"]) == keeper.folder / "tmp-kept" / "1.1"
    else:
        assert "tmp" not in end
        assert not (keeper.folder / "tmp-kept").exists()


def test_the_log_says_where_it_is(keeper: Keeper) -> None:
    keeper.run(shell(keeper, "touch $TMPDIR/x", tmp="all"))
    end = keeper.end_of(1)
    assert log_of(keeper) == f"longshore: TMPDIR is kept: {end['tmp']}\n"


# ------------------------------------------------------------------------------------------ what the kernel would tell


def fake_proc(folder: Path, *, oom_kills: int, **processes: tuple[int, int, int, int]) -> Path:
    """A kernel's words: parent, session, resident and shared pages per process, by ``pN``."""
    (folder / "self").mkdir(parents=True, exist_ok=True)
    (folder / "self" / "cgroup").write_text("4:memory:/x\n", "utf-8")
    (folder / "vmstat").write_text(f"pgfault 7\noom_kill {oom_kills}\n", "utf-8")
    for name, (parent, session, resident, shared) in processes.items():
        one = folder / name[1:]
        one.mkdir(exist_ok=True)
        fields = ["S", str(parent), "0", str(session), *["0"] * 15, "4711", "0"]
        (one / "stat").write_text(f"{name[1:]} (a) (b) {' '.join(fields)}\n", "utf-8")
        (one / "statm").write_text(f"9999 {resident} {shared} 1 0 1 0\n", "utf-8")
    return folder


def test_a_kill_of_the_kernels_is_out_of_memory(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, oom_kills=5)
    dog = Watchdog(Processes(str(proc)))
    assert dog.unwatch(100, signal.SIGKILL, None) == {}, "somebody else's kill"
    fake_proc(tmp_path, oom_kills=7)
    assert dog.unwatch(100, 0, None) == {}, "a success"
    assert dog.unwatch(100, signal.SIGTERM, None) == {}, "not how the kernel kills"
    out_of_memory = {"why": "OOM", "say": "the kernel killed it, or one of its processes, for lack of memory"}
    assert dog.unwatch(100, signal.SIGKILL, None) == out_of_memory
    assert dog.unwatch(101, 137 << 8, None) == out_of_memory, "what a shell exits with whose command was killed"
    assert dog.unwatch(102, signal.SIGKILL, None) == {}, "two were killed, and two are explained"


def test_whose_a_process_is(tmp_path: Path) -> None:
    proc = fake_proc(
        tmp_path,
        oom_kills=0,
        p50=(1, 50, 900, 0),
        p100=(50, 100, 10, 4),
        p101=(100, 100, 20, 6),
        p102=(101, 102, 30, 5),
        p90=(102, 102, 40, 0),
        p200=(50, 200, 7, 7),
    )
    dog = Watchdog(Processes(str(proc)))
    for pid in (100, 200):
        dog.begin(pid, {"mem": 1 << 40}, "log")
    processes = dog.processes
    processes.refresh()
    assert {pid: sorted(members) for pid, members in processes.members.items()} == {
        100: [90, 100, 101, 102],
        200: [200],
    }
    # What each has alone, and the largest part that may be common to all.
    assert processes.sampled_memory(100) == (6 + 14 + 25 + 40 + 6) * processes.page
    assert processes.exact_memory(100, 123) == 123, "where the kernel does not tell"
    for name in ("stat", "statm"):
        (tmp_path / "101" / name).unlink()
    (tmp_path / "101").rmdir()
    processes.refresh()
    assert sorted(processes.members[100]) == [90, 100, 102]
    dog.unwatch(100, 0, None)
    assert sorted(processes.members) == [200]
    assert 100 not in processes.owner


def test_nothing_is_due_where_nothing_is_watched() -> None:
    dog = Watchdog(Processes())
    assert dog.next_check_s() is None
    dog.begin(os.getpid(), {"tmp": "all", "log": 0}, "log")
    assert dog.next_check_s() is None
    dog.begin(os.getpid(), {"wall": 1000.0, "log": 0}, "log")
    assert 999.0 < (dog.next_check_s() or 0.0) <= 1000.0
    dog.begin(os.getpid(), {"wall": 1000.0, "log": 1}, "log")
    assert 0.0 < (dog.next_check_s() or 0.0) <= 0.25
