"""The lease of a job: its wrapper renews it, and kills the job when it cannot, or when the attempt is given up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "longshore-job"
SHELLS = [path for shell in ("dash", "bash", "ksh", "mksh") if (path := shutil.which(shell))]
LEASE_S = 2


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class _Member:
    """A member of a batch 'b' with a short lease, whose job writes its process id and waits for a file 'go'."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        self.ends = folder / "ends" / "b"
        self.ends.mkdir(parents=True)
        line = f"echo $$ >{folder}/pid; until test -e {folder}/go; do sleep 0.05; done"
        fields = ("4", "x", "2", str(folder), str(folder / "log"), "", line, "", "")
        (folder / "table").write_text("\t".join(fields) + "\n", "utf-8")
        self.words = [shell, str(PROGRAM), "-m", "1", "-e", str(self.ends), str(folder / "table")]
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, lease_s: int = LEASE_S) -> subprocess.Popen[bytes]:
        self.process = subprocess.Popen(
            self.words, stderr=subprocess.PIPE, env={**os.environ, "LONGSHORE_LEASE_S": str(lease_s)}
        )
        eventually(lambda: (self.folder / "pid").exists() and (self.folder / "pid").read_text("utf-8"))
        return self.process

    @property
    def is_alive(self) -> bool:
        pid = int((self.folder / "pid").read_text("utf-8"))
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    @property
    def began(self) -> Path:
        return self.ends / "4.2.began"

    def give_up(self) -> None:
        (self.folder / "ends" / "fenced").mkdir()
        (self.folder / "ends" / "fenced" / "b.4.2").touch()

    @property
    def record(self) -> dict[str, object]:
        told: dict[str, object] = json.loads((self.ends / "4.2").read_text("utf-8").splitlines()[-1])
        return told


@pytest.fixture
def member(tmp_path: Path, shell: str) -> Iterator[_Member]:
    made = _Member(tmp_path, shell)
    yield made
    (tmp_path / "go").touch()
    if made.process is not None:
        made.process.wait(60)
        assert made.process.stderr is not None
        made.process.stderr.close()


def test_a_lease_is_renewed_in_place_while_the_job_runs(member: _Member) -> None:
    member.begin()
    first, line = member.began.stat().st_mtime_ns, member.began.read_bytes()
    eventually(lambda: member.began.stat().st_mtime_ns > first)
    second = member.began.stat().st_mtime_ns
    eventually(lambda: member.began.stat().st_mtime_ns > second)
    assert member.began.read_bytes() == line
    (member.folder / "go").touch()
    assert member.process is not None
    assert member.process.wait(60) == 0
    assert (member.record["status"], "fenced" in member.record) == (0, False)
    assert [path.name for path in member.ends.iterdir()] == ["4.2"]


def test_a_job_whose_lease_cannot_be_renewed_is_killed(member: _Member) -> None:
    process = member.begin()
    since = time.monotonic()
    member.ends.rename(member.folder / "away")
    assert process.wait(60) == 137
    assert time.monotonic() - since >= LEASE_S / 2, "a file server may be away for a moment"
    assert not member.is_alive
    assert process.stderr is not None
    assert f"could not renew its lease for {LEASE_S} s, and was killed".encode() in process.stderr.read()


def test_the_record_of_a_killed_job_says_why(member: _Member) -> None:
    process = member.begin()
    # Something else is in the place of the file, so that the record has its own place still.
    member.began.unlink()
    assert process.wait(60) == 137
    assert (member.record["status"], member.record["fenced"]) == (137, "lease")


def test_a_file_server_that_comes_back_in_time_kills_nothing(member: _Member) -> None:
    process = member.begin(lease_s=8)
    away = member.folder / "away"
    first = member.began.stat().st_mtime_ns
    member.ends.rename(away)
    # Longer than an interval between two renewals, shorter than the lease.
    time.sleep(2.5)
    away.rename(member.ends)
    eventually(lambda: member.began.stat().st_mtime_ns > first)
    assert process.poll() is None
    assert member.is_alive


def test_a_job_whose_attempt_is_given_up_is_killed_and_says_so(member: _Member) -> None:
    process = member.begin()
    member.give_up()
    assert process.wait(60) == 137
    assert not member.is_alive
    assert (member.record["status"], member.record["fenced"]) == (137, "told")
    assert process.stderr is not None
    assert b"attempt 2 of job 4 was given up, and was killed" in process.stderr.read()


def test_an_attempt_that_was_given_up_does_not_start(member: _Member) -> None:
    member.give_up()
    done = subprocess.run(member.words, check=False, capture_output=True, timeout=60)
    assert done.returncode == 99
    assert b"attempt 2 of job 4 was given up, and is not run" in done.stderr
    assert member.record["refused"] is True
    assert not (member.folder / "pid").exists()


def test_a_signal_to_all_processes_does_not_stop_the_lease(tmp_path: Path, shell: str) -> None:
    member = _Member(tmp_path, shell)
    line = f"trap : TERM USR1; echo $$ >{tmp_path}/pid; until test -e {tmp_path}/go; do sleep 0.05; done"
    table = (tmp_path / "table").read_text("utf-8").split("\t")
    (tmp_path / "table").write_text("\t".join([*table[:6], line, *table[7:]]), "utf-8")
    process = subprocess.Popen(
        member.words, env={**os.environ, "LONGSHORE_LEASE_S": str(LEASE_S)}, start_new_session=True
    )
    try:
        eventually(lambda: (tmp_path / "pid").exists() and member.began.exists() and member.began.read_bytes())
        os.killpg(process.pid, 15)
        first = member.began.stat().st_mtime_ns
        eventually(lambda: member.began.stat().st_mtime_ns > first)
    finally:
        (tmp_path / "go").touch()
    assert process.wait(60) == 0


def test_nothing_is_left_of_short_jobs(tmp_path: Path, shell: str) -> None:
    """The process that renews the lease ends with the job, whenever that is, and does not delay its end."""
    member = _Member(tmp_path, shell)
    (tmp_path / "go").touch()
    since = time.monotonic()
    for number in range(30):
        ends = tmp_path / "ends" / f"b{number}"
        words = [*member.words[:5], str(ends), member.words[6]]
        # A process that is left keeps the pipe open.
        subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=60, start_new_session=True)
    assert time.monotonic() - since < 25, "a renewer that sleeps on would take 30 s"
