"""The keeper as the program it is: orders on its pipe, records in its file, and nothing lost in between."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.services.local.keeper_process import Keeper

from longshore.keeper.program import FOLDER, PROGRAM
from longshore.keeper.program.attempts import AttemptRunner, Records
from longshore.keeper.program.kernel import boot_id, signal_group
from longshore.keeper.program.processes import Processes
from longshore.keeper.program.watchdog import Watchdog
from longshore.system.host import is_same_process


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Keeper]]:
    made: list[Keeper] = []

    def make(**more: Any) -> Keeper:
        made.append(Keeper(tmp_path, **more))
        return made[-1]

    yield make
    for keeper in made:
        for start in keeper.said("start"):
            if start["pid"] > 1 and is_same_process(start["pid"], start["up"]):
                signal_group(start["pid"], signal.SIGKILL)
        keeper.kill()
        for pipe in (keeper.process.stdin, keeper.process.stdout):
            if pipe and not pipe.closed:
                pipe.close()


@pytest.fixture
def keeper(make: Callable[..., Keeper]) -> Keeper:
    return make()


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_orders_and_records(keeper: Keeper) -> None:
    keeper.run(keeper.member(5, "/bin/sh", "-c", "echo hi; echo there >&2; exit 3"), tag="t-1")
    end = keeper.end_of(5)
    assert keeper.drain() == 0
    first, got, start, leaving, last, closed = keeper.said()
    assert (first["r"], first["pid"], first["host"]) == ("keeper", keeper.pid, os.uname().nodename)
    assert (first["boot"], first["tmp"]) == (boot_id(), str(keeper.tmp))
    assert got == {"r": "got", "b": "t-1", "m": [[5, 1]]}
    assert (start["r"], start["j"], start["a"]) == ("start", 5, 1)
    assert abs(start["t"] - time.time()) < 20
    assert first["guard"] == keeper.process.pid
    assert (leaving["r"], leaving["j"], leaving["a"], leaving["s"]) == ("exit", 5, 1, end["s"])
    assert last == end
    assert os.waitstatus_to_exitcode(end["s"]) == 3
    assert 0 <= end["run"] < 20
    assert 0 <= end["cpu"] < 5
    assert closed == {"r": "closed"}
    assert keeper.log(5) == b"hi\nthere\n"


def test_without_a_place_for_its_records_it_says_so(tmp_path: Path) -> None:
    records = tmp_path / "missing" / "records.jsonl"
    command = [sys.executable, "-I", "-S", str(FOLDER / PROGRAM), str(records), str(tmp_path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("longshore: the keeper cannot start: ")
    assert str(records.with_suffix("")) in line


def test_a_byte_tells_of_news(keeper: Keeper) -> None:
    assert keeper.process.stdout
    assert keeper.process.stdout.read(1) == b"\n"
    keeper.run(keeper.member(1, "true"))
    keeper.end_of(1)
    assert b"\n" in keeper.process.stdout.read(100)


def test_when_its_input_closes_it_waits_for_what_runs(keeper: Keeper) -> None:
    keeper.run(keeper.member(1, "/bin/sh", "-c", "sleep 0.4; echo done"))
    keeper.until(lambda: keeper.said("start"))
    # An order that was cut off is none.
    keeper.write(json.dumps({"o": "run", "b": "cut", "m": [keeper.member(2, "true")]}).encode())
    assert keeper.drain() == 0
    assert [record["r"] for record in keeper.said()] == ["keeper", "got", "start", "closed", "exit", "end"]
    assert keeper.log(1) == b"done\n"
    assert not keeper.tmp.exists()


def test_programs_that_cannot_be_loaded_do_not_take_the_keeper_along(keeper: Keeper) -> None:
    # The C library takes the process of such a one away itself, perhaps between two looks of the keeper at it.
    bad = keeper.folder / "bad"
    bad.write_text("#!/no/such/interpreter\n", "utf-8")
    bad.chmod(0o755)
    for job in range(400):
        keeper.run(keeper.member(job, "true" if job % 3 == 0 else str(bad)), tag=str(job))
    assert keeper.drain() == 0
    ends = {end["j"]: end for end in keeper.said("end")}
    assert set(ends) == set(range(400))
    assert {"err" in ends[job] for job in range(400) if job % 3} == {True}
    assert {"err" in ends[job] for job in range(0, 400, 3)} == {False}


QUICKER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from attempts import AttemptRunner, Records

class QuickerRunner(AttemptRunner):
    def record_started(self):
        # What the C library does in the thread that could not load a program.
        os.waitpid(failed, 0)

runner = QuickerRunner(Records(sys.argv[2]), sys.argv[3], None)
failed = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 127"], {})
os.waitid(os.P_PID, failed, os.WEXITED | os.WNOWAIT)
runner.reap()
print("goes on")
"""


def test_who_was_taken_away_by_the_c_library_is_nobody_to_wait_for(tmp_path: Path) -> None:
    command = [sys.executable, "-c", QUICKER, str(FOLDER), str(tmp_path / "records"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("goes on\n", "")


def test_orders_that_were_sent_before_the_end_are_carried_out(keeper: Keeper) -> None:
    for job in range(50):
        keeper.run(keeper.member(job, "true"), tag=str(job))
    assert keeper.drain() == 0
    assert {end["j"] for end in keeper.said("end")} == set(range(50))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE])
def test_a_signal_does_not_end_it(keeper: Keeper, number: signal.Signals) -> None:
    keeper.run(keeper.member(1, "sleep", "0.1"))
    keeper.until(lambda: keeper.said("start"))
    keeper.process.send_signal(number)
    assert os.waitstatus_to_exitcode(keeper.end_of(1)["s"]) == 0
    keeper.run(keeper.member(2, "true"))
    assert os.waitstatus_to_exitcode(keeper.end_of(2)["s"]) == 0


def test_jobs_begin_with_ordinary_signals(keeper: Keeper) -> None:
    keeper.run(keeper.member(1, "sed", "-n", r"/^Sig\(Blk\|Ign\)/p", "/proc/self/status"))
    keeper.end_of(1)
    # Beyond 31 are those that the C library keeps for itself.
    masks = [int(line.split()[1], 16) & 0x7FFFFFFF for line in keeper.log(1).splitlines()]
    assert masks == [0, 0]


def test_jobs_inherit_no_files(keeper: Keeper) -> None:
    keeper.run(keeper.member(1, "ls", "/proc/self/fd"))
    keeper.end_of(1)
    # The fourth is the listing's own.
    assert keeper.log(1).split() == [b"0", b"1", b"2", b"3"]


def test_what_a_job_leaves_in_its_group_is_killed(keeper: Keeper) -> None:
    keeper.run(keeper.member(1, "/bin/sh", "-c", "sleep 60 & echo $!"))
    keeper.end_of(1)
    keeper.until(partial(is_gone, int(keeper.log(1))))


def test_orphans_in_sessions_of_their_own_are_reaped(keeper: Keeper) -> None:
    keeper.run(keeper.member(1, "/bin/sh", "-c", "setsid sh -c 'echo $$; exec sleep 0.3' & wait $!; :"))
    keeper.run(keeper.member(2, "/bin/sh", "-c", "setsid sh -c 'echo $$; exec sleep 0.3' & sleep 0.1"), tag="c")
    for job in (1, 2):
        keeper.end_of(job)
        # Neither running nor a zombie.
        keeper.until(partial(is_gone, int(keeper.log(job))))
    assert keeper.drain() == 0


def test_a_full_disk_delays_records_and_loses_none(make: Callable[..., Keeper]) -> None:
    keeper = make(most_bytes=500)
    keeper.run(*[keeper.member(job, "true") for job in range(3)])
    for order in range(5):
        keeper.run(keeper.member(10 + order, "true"), tag=f"later-{order}")
    keeper.until(lambda: keeper.records.exists() and keeper.records.stat().st_size == 500)
    time.sleep(0.2)
    assert keeper.records.stat().st_size == 500
    started = len(keeper.said("start"))
    # What is not on record is not started.
    assert not (keeper.folder / "logs" / "14.log").exists()
    resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for job in (0, 1, 2, *range(10, 15)):
        assert os.waitstatus_to_exitcode(keeper.end_of(job)["s"]) == 0
    assert keeper.drain() == 0
    assert started < len(keeper.said("start")) == 8
    assert len(keeper.said("got")) == 6


def test_its_end_waits_for_a_full_disk(make: Callable[..., Keeper]) -> None:
    keeper = make(most_bytes=500)
    keeper.run(*[keeper.member(job, "true") for job in range(3)])
    assert keeper.process.stdin
    keeper.process.stdin.close()
    time.sleep(0.3)
    assert keeper.process.poll() is None
    resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert keeper.process.wait(120) == 0
    assert len(keeper.said("end")) == 3


def test_bytes_that_are_no_text_pass_through_the_environment(keeper: Keeper) -> None:
    strange = os.fsdecode(b"\xff\xfe=\n x")
    keeper.order({"o": "env", "id": 7, "env": {"PATH": os.environ["PATH"], "STRANGE": strange}})
    keeper.run(keeper.member(1, "/bin/sh", "-c", 'printf %s "$STRANGE$MORE"', e=7, v={"MORE": "é"}))
    keeper.end_of(1)
    assert keeper.log(1) == b"\xff\xfe=\n x\xc3\xa9"


def not_started(keeper: Keeper, *argv: str, **more: Any) -> tuple[str, int | None]:
    """Order what cannot be started, and return what the keeper says of it; it goes on to start other jobs."""
    keeper.run(keeper.member(1, *argv, **more))
    end = keeper.end_of(1)
    assert "s" not in end
    keeper.run(keeper.member(2, "true"), tag="next")
    assert os.waitstatus_to_exitcode(keeper.end_of(2)["s"]) == 0
    keeper.until(lambda: not list(keeper.tmp.iterdir()))
    return end["err"], end["no"]


def test_a_script_without_an_interpreter_is_not_started(keeper: Keeper) -> None:
    script = keeper.folder / "script"
    script.write_text("echo hello\n", "utf-8")
    script.chmod(0o755)
    why, _ = not_started(keeper, str(script))
    assert str(script) in why
    assert "must name an interpreter" in why
    assert keeper.log(1).decode() == f"longshore: {why}\n"


@pytest.mark.parametrize(
    ("argv", "more", "said"),
    [
        (("no-such-program",), {}, "cannot start 'no-such-program': no such program on the PATH"),
        (("/no/such/program",), {}, "cannot start '/no/such/program': No such file"),
        (("/etc",), {}, "cannot start '/etc': Permission denied"),
        (("true",), {"cwd": "/no/such/folder"}, "cannot start '/no/such/folder': No such file"),
        (("true", "a\0b"), {}, "cannot start 'true': embedded null byte"),
        (("true",), {"v": {"A": "\ud800"}}, "cannot start 'true': "),
        ((), {}, "the command has no words"),
        (("true",), {"log": "/dev/null/x/1.log"}, "cannot make '/dev/null/x/1.log': Not a directory"),
        (("true",), {"log": "/proc"}, "cannot make '/proc': Is a directory"),
        (("true", "x" * 200_000), {}, "Argument list too long"),
    ],
)
def test_what_cannot_be_started_is_named(
    keeper: Keeper, argv: tuple[str, ...], more: dict[str, Any], said: str
) -> None:
    why, _ = not_started(keeper, *argv, **more)
    assert said in why


def test_programs_are_looked_up_on_the_path_of_the_job(keeper: Keeper) -> None:
    for name in ("one", "two"):
        folder = keeper.folder / name
        folder.mkdir()
        program = folder / "tool"
        program.write_text(f"#!/bin/sh\necho {name}\n", "utf-8")
        program.chmod(0o755)
    # A path relative to where the job starts, which must not be remembered for the next.
    members = [
        keeper.member(job, "tool", cwd=str(keeper.folder / name), v={"PATH": ".:/usr/bin:/bin"})
        for job, name in enumerate(("one", "two"))
    ]
    keeper.run(*members)
    for job in range(2):
        keeper.end_of(job)
    assert [keeper.log(job) for job in range(2)] == [b"one\n", b"two\n"]


def test_an_order_may_be_of_megabytes(keeper: Keeper) -> None:
    big = "x" * 100_000
    keeper.run(*[keeper.member(job, "true", v={"BIG": big}) for job in range(30)])
    for job in range(30):
        assert os.waitstatus_to_exitcode(keeper.end_of(job)["s"]) == 0


def test_a_signal_goes_to_the_group_of_the_attempt_meant(keeper: Keeper) -> None:
    keeper.run(keeper.member(1, "/bin/sh", "-c", "sleep 60 & wait"), keeper.member(2, "sleep", "0.5"))
    keeper.until(lambda: len(keeper.said("start")) == 2)
    keeper.order({"o": "kill", "m": [[99, 1], [1, 2], [2, 2]], "sig": 9})
    keeper.order({"o": "kill", "m": [[1, 1]], "sig": 15})
    assert keeper.end_of(1)["s"] == signal.SIGTERM
    assert keeper.end_of(2)["s"] == 0
    # Nobody of that number is there any more, which is no error.
    keeper.order({"o": "kill", "m": [[1, 1], [2, 1]], "sig": 9})
    keeper.run(keeper.member(3, "true"))
    assert keeper.end_of(3)["s"] == 0


def test_temporary_directories_are_removed_with_all_in_them(keeper: Keeper) -> None:
    line = 'ls -A "$TMPDIR"; mkdir -p "$TMPDIR/a/b"; touch "$TMPDIR/a/b/c" "$TMPDIR/-rf"; stat -c %a "$TMPDIR"'
    keeper.run(keeper.member(1, "/bin/sh", "-c", line))
    keeper.end_of(1)
    assert keeper.log(1) == b"700\n"
    keeper.until(lambda: not list(keeper.tmp.iterdir()))


def test_the_memory_of_a_small_job_is_not_that_of_the_keeper(keeper: Keeper) -> None:
    work = "block = bytearray(b'x' * (64 << 20))"
    keeper.run(keeper.member(1, "true"), keeper.member(2, sys.executable, "-c", work))
    assert keeper.end_of(1)["rss"] is None
    assert keeper.end_of(2)["rss"] > 64 << 20


def test_a_process_is_known_again_by_its_start(keeper: Keeper) -> None:
    keeper.run(keeper.member(1, "sleep", "0.3"))
    start = keeper.until(lambda: keeper.said("start"))[0]
    assert is_same_process(start["pid"], start["up"])
    assert not is_same_process(start["pid"], start["up"] - 5)
    keeper.end_of(1)


def test_a_temporary_directory_is_given_on_only_when_nothing_was_put_into_it(keeper: Keeper) -> None:
    used = 'mkdir "$TMPDIR/d"; rmdir "$TMPDIR/d"'
    for job, script in enumerate(("true", 'echo x > "$TMPDIR/x"', "true", used, "true")):
        keeper.run(keeper.member(job, "/bin/sh", "-c", f'ls -a "$TMPDIR" | wc -l; echo "$TMPDIR"; {script}'))
        keeper.end_of(job)
        assert keeper.log(job).decode() == f"2\n{keeper.tmp}/{job}.1\n"
    keeper.until(lambda: not list(keeper.tmp.iterdir()))


def test_without_a_spawner_everything_starts_all_the_same(tmp_path: Path) -> None:
    records = Records(str(tmp_path / "records"))
    keeper = AttemptRunner(records, str(tmp_path), Watchdog(Processes()))
    keeper.carry_out(json.dumps({"o": "env", "id": 0, "env": {"PATH": os.environ["PATH"]}}).encode())
    words = ["/bin/sh", "-c", "pwd; exit 4"]
    member = {"j": 1, "a": 1, "argv": words, "e": 0, "v": {}, "cwd": "/usr", "log": str(tmp_path / "log")}
    keeper.carry_out(json.dumps({"o": "run", "b": "b", "m": [member]}).encode())
    here = Path.cwd()
    try:
        keeper.start_chosen()
    finally:
        os.chdir(here)
    (pid,) = keeper.running
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
    assert (tmp_path / "log").read_text("utf-8") == "/usr\n"
    os.close(records.file)
    os.close(keeper.null_file)


def test_a_kill_that_overtakes_its_start_is_not_lost(keeper: Keeper) -> None:
    members = [keeper.member(job, "sleep", "60") for job in range(20)]
    run = json.dumps({"o": "run", "b": "b", "m": members}).encode()
    kill = json.dumps({"o": "kill", "m": [[job, 1] for job in range(20)], "sig": signal.SIGTERM}).encode()
    keeper.write(run + b"\n" + kill + b"\n")
    for job in range(20):
        assert os.WTERMSIG(keeper.end_of(job)["s"]) == signal.SIGTERM
