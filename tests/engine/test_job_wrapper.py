"""Members of a batch run through the job wrapper: their table, the line that runs them, and their end records."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.waiting import eventually

from longshore.config.plugins import shipped_path
from longshore.contract.executor import AttemptId, BatchMember
from longshore.contract.service import Context, RunPaths, Site
from longshore.engine.job_wrapper import WRAPPER, BatchFiles, wrapper_file
from longshore.model.states import Cause
from longshore.model.tasks import Command
from longshore.rundir.batch_records import FENCED, LEASE_S, RUN_ONCE, UNREADY, EndRecord, signal_in

anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


def member(job: int, command: Command, *, attempt: int = 1, name: str = "a", folder: Path = Path("/")) -> BatchMember:
    return BatchMember(
        job=job,
        attempt=attempt,
        name=name,
        command=command,
        environment={"GREETING": f"{name}'s $HOME"},
        working_directory=str(folder),
        log=f"logs/{job}.{attempt}.log",
    )


@pytest.fixture
def files(tmp_path: Path) -> BatchFiles:
    """The files of a batch, in a run directory with a name that needs quoting."""
    run = RunPaths(tmp_path / "a 'run'")
    (run.root / WRAPPER).parent.mkdir(parents=True)
    shutil.copy(shipped_path("bin", WRAPPER.name), run.root / WRAPPER)
    return BatchFiles(run, "k7f3a-1-1")


@given(name=anything, command=anything)
@example(name="a\tb\nc\\d\x0be\u2028", command="\n\t\\")
def test_the_table_has_a_line_a_member(name: str, command: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    files = BatchFiles(RunPaths(tmp_path_factory.mktemp("run")), "t")
    files.write_table([member(3, command, name=name), member(4, ("printf", "%s", command), attempt=2, name=name)])
    lines = files.table.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert [line.count(b"\t") for line in lines] == [8, 8]
    assert files.read_members() == ((3, 1), (4, 2))


def test_only_the_owner_reads_the_variables_of_the_members(files: BatchFiles) -> None:
    before = os.umask(0)
    try:
        files.write_table([member(3, "true")])
    finally:
        os.umask(before)
    assert files.table.stat().st_mode & 0o777 == 0o600


def test_a_batch_without_files_has_no_members_and_no_ends(files: BatchFiles) -> None:
    assert files.read_members() == ()
    assert files.read_ends({(3, 1)}) == ({}, set())
    files.remove_end((3, 1))
    files.remove_directory()


def test_the_line_of_shell_runs_a_member_and_leaves_its_end(files: BatchFiles, tmp_path: Path) -> None:
    commands: list[Command] = ["echo $GREETING; exit 3", (sys.executable, "-c", "import os; os.kill(os.getpid(), 15)")]
    files.write_table([member(job, command, folder=tmp_path) for job, command in enumerate(commands)])
    for line in ("1", '"$INDEX"'):
        subprocess.run(["/bin/sh", "-c", files.command(line)], env={**os.environ, "INDEX": "2"}, check=False)
    ended, begun = files.read_ends({(0, 1), (1, 1)})
    assert begun == set()
    assert {attempt: record.status for attempt, record in ended.items()} == {(0, 1): 3, (1, 1): 143}
    assert (files.run.root / "logs" / "0.1.log").read_text("utf-8") == "a's $HOME\n"
    first, second = (ended[attempt].to_event() for attempt in ((0, 1), (1, 1)))
    assert (first.exit, first.signal, first.cause) == (3, None, Cause.EXIT)
    assert (second.exit, second.signal, second.cause) == (None, 15, Cause.SIGNAL)
    assert first.start is not None
    assert first.end is not None
    assert 0 <= first.end - first.start < 60
    files.remove_end((0, 1))
    assert files.read_ends({(0, 1)}) == ({}, set())
    files.remove_directory()
    assert files.ends.is_dir(), "the end of another member is there"


@pytest.mark.parametrize("name", ["4.1", "x", "4", "3.1.tmp", "3.1.began.x"])
def test_other_files_are_no_ends(name: str, files: BatchFiles) -> None:
    files.ends.mkdir(parents=True)
    (files.ends / name).write_text('{"j":3,"a":1,"status":0,"run":1.0,"host":"h"}', "utf-8")
    assert files.read_ends({(3, 1)}) == ({}, set())


def test_a_member_that_began_is_known(files: BatchFiles) -> None:
    files.ends.mkdir(parents=True)
    (files.ends / "3.1.began").touch()
    assert files.read_ends({(3, 1)}) == ({}, {(3, 1)})


@pytest.mark.parametrize("text", ["", "{}", "{", "\n", '{"j":3}'])
def test_half_a_record_is_none(text: str, files: BatchFiles) -> None:
    files.ends.mkdir(parents=True)
    (files.ends / "3.1").write_text(text, "utf-8")
    wanted: set[AttemptId] = {(3, 1)}
    assert files.read_ends(wanted) == ({}, set())


def test_a_record_that_is_being_written_is_no_damage(files: BatchFiles, caplog: pytest.LogCaptureFixture) -> None:
    files.ends.mkdir(parents=True)
    (files.ends / "3.1.began").touch()
    (files.ends / "3.1").write_bytes(b'{"j":3,"a":1,"st')
    assert files.read_ends({(3, 1)}) == ({}, {(3, 1)})
    assert caplog.messages == []
    (files.ends / "3.1.began").unlink()
    assert files.read_ends({(3, 1)}) == ({}, set())
    assert len(caplog.messages) == 1


VALUES = b'"j":3,"a":1,"status":127,"run":1.05,"host":"n1","batch":"k7f3a-1-1"'
OUTPUTS = VALUES + b',"out":"1 stale","stamps":"12 1790000000.004512000 3 1790000001.000000000"'
RECORD = b'{%b,"again":{%b}}\n' % (VALUES, VALUES)
RECORD_WITH_OUTPUTS = b'{%b,"again":{%b}}\n' % (OUTPUTS, OUTPUTS)
FENCED_VALUES = VALUES.replace(b"127", b"137") + b',"fenced":"lease"'
FENCED_RECORD = b'{%b,"again":{%b}}\n' % (FENCED_VALUES, FENCED_VALUES)
OLDER_RECORD = b'{"j":3,"a":1,"status":127,"run":1.05,"host":"n1"}\n'


@pytest.mark.parametrize(
    "record", [RECORD, RECORD_WITH_OUTPUTS, FENCED_RECORD, OLDER_RECORD], ids=["now", "outputs", "fenced", "older"]
)
def test_every_cut_of_an_end_record_is_told_and_none_is_read_as_another(
    files: BatchFiles, record: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    files.ends.mkdir(parents=True)
    path = files.ends / "3.1"
    whole = b"n1 77 /run/wms/longshore-job\n" + record
    path.write_bytes(whole)
    intact = files.read_ends({(3, 1)})[0][3, 1]
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        os.utime(path, (intact.end, intact.end))
        ended, _ = files.read_ends({(3, 1)})
        # Without its line feed, nothing of it is missing.
        assert ended in ([{(3, 1): intact}] if end == len(whole) - 1 else [{}]), end
    assert f"'{path}' is not an end record of its job" in caplog.text
    assert caplog.text.count(str(path)) == 1, "once"


def changes(record: bytes) -> Iterator[bytes]:
    """Yield a record with each of its bits flipped, each byte dropped, and each digit replaced."""
    for at, byte in enumerate(record):
        yield from (record[:at] + bytes([byte ^ 1 << bit]) + record[at + 1 :] for bit in range(8))
        yield record[:at] + record[at + 1 :]
        if byte in b"0123456789":
            yield from (record[:at] + b"%d" % digit + record[at + 1 :] for digit in range(10) if digit != byte - 0x30)


def test_no_changed_value_of_an_end_record_is_used(files: BatchFiles) -> None:
    files.ends.mkdir(parents=True)
    path = files.ends / "3.1"
    path.write_bytes(RECORD)
    intact = files.read_ends({(3, 1)})[0][3, 1]
    assert (intact.status, intact.run, intact.host, intact.batch) == (127, 1.05, "n1", files.tag)
    number = 0
    for changed in changes(RECORD.removesuffix(b"\n")):
        path.write_bytes(changed)
        assert files.read_ends({(3, 1)})[0] == {}, changed
        number += 1
    assert number > 1_000


def test_the_end_record_of_another_batch_is_not_used(files: BatchFiles) -> None:
    files.ends.mkdir(parents=True)
    path = files.ends / "3.1"
    path.write_bytes(RECORD.replace(b"k7f3a-1-1", b"k7f3a-1-2"))
    assert files.read_ends({(3, 1)})[0] == {}


def test_changed_forms_and_names_of_an_older_end_record_are_told(files: BatchFiles) -> None:
    files.ends.mkdir(parents=True)
    path = files.ends / "3.1"
    values = {*range(OLDER_RECORD.index(b"127"), OLDER_RECORD.index(b"127") + 3)}
    values |= set(range(OLDER_RECORD.index(b"1.05"), OLDER_RECORD.index(b"1.05") + 4))
    values |= set(range(OLDER_RECORD.index(b"n1"), OLDER_RECORD.index(b"n1") + 2))
    for at in set(range(len(OLDER_RECORD) - 1)) - values:
        for bit in range(8):
            changed = bytearray(OLDER_RECORD)
            changed[at] ^= 1 << bit
            path.write_bytes(changed)
            assert files.read_ends({(3, 1)})[0] == {}, (at, bit)


@pytest.mark.parametrize("status", [b"127", b"126", b"12"])
def test_a_second_start_ends_with_no_status_that_may_be_wrong(files: BatchFiles, status: bytes, tmp_path: Path) -> None:
    files.write_table([member(3, "exit 5", folder=tmp_path)])
    (files.ends / "3.1").write_bytes(b"n1 77 /run/wms/longshore-job\n" + RECORD.replace(b"127", status, 1))
    ran = subprocess.run(["/bin/sh", "-c", files.command(1)], check=False, capture_output=True)
    assert ran.returncode == (127 if status == b"127" else 126)


@pytest.mark.parametrize("end", [len(RECORD), *range(RECORD.index(b"127") + 1, len(RECORD) - 1)])
def test_a_job_that_ran_before_ends_with_its_status_or_without_any(files: BatchFiles, end: int, tmp_path: Path) -> None:
    files.write_table([member(3, "exit 5", folder=tmp_path)])
    (files.ends / "3.1").write_bytes(RECORD[:end].rstrip(b"\n") + b"\n")
    ran = subprocess.run(["/bin/sh", "-c", files.command(1)], check=False, capture_output=True)
    assert ran.returncode == (127 if end == len(RECORD) else 126)


@pytest.mark.parametrize(
    ("command", "rule", "outputs", "runs"),
    [
        ("true", "", (), True),
        ("exit 3", "", (), False),
        ("true", "exists", ("never",), False),
        ("touch now", "exists", ("now",), True),
        ("touch now", "fresh", ("now",), False),
        (None, "", (), False),
    ],
)
def test_a_member_is_run_after_the_success_of_its_parents_alone(
    files: BatchFiles, tmp_path: Path, command: str | None, rule: str, outputs: tuple[str, ...], *, runs: bool
) -> None:
    parents = BatchFiles(files.run, "k7f3a-1-0")
    if command is not None:
        paths = tuple(str(tmp_path / name) for name in outputs)
        parent = msgspec.structs.replace(
            member(2, command, folder=tmp_path), outputs=paths, fresh_outputs=rule == "fresh"
        )
        parents.write_table([parent])
        subprocess.run(["/bin/sh", "-c", parents.command(1)], check=False, capture_output=True)
    files.write_table([member(3, "touch ran", folder=tmp_path), member(4, "touch other", folder=tmp_path)])
    files.write_parents([(0, rule, "k7f3a-1-0/2.1")])
    ran = subprocess.run(["/bin/sh", "-c", files.command(1)], check=False, capture_output=True)
    assert (ran.returncode, (tmp_path / "ran").exists()) == ((0, True) if runs else (99, False))
    end = files.read_ends({(3, 1)})[0][3, 1].to_event()
    assert (end.exit, end.cause, end.reason) == ((0, None, None) if runs else (None, Cause.SUBMIT, UNREADY))
    # The other has no parents.
    assert subprocess.run(["/bin/sh", "-c", files.command(2)], check=False).returncode == 0


def test_a_guard_kills_the_job_of_a_wrapper_that_is_killed(files: BatchFiles, tmp_path: Path) -> None:
    beat, scratch = tmp_path / "beat", tmp_path / "scratch"
    scratch.mkdir()
    endless = f"trap '' TERM; while :; do echo x >>{beat}; sleep 0.05; done"
    look = f"ls -A $TMPDIR >{tmp_path}/empty"
    files.write_table([member(3, endless, folder=tmp_path), member(4, look, folder=tmp_path)])
    environment = {**os.environ, "TMPDIR": str(scratch)}

    def begin(line: int) -> subprocess.Popen[bytes]:
        command = files.command(line).replace(" -m ", " -g -m ")
        # What a scheduler kills is the group of its script.
        return subprocess.Popen(["/bin/sh", "-c", f"exec {command}"], env=environment, start_new_session=True)

    assert begin(2).wait() == 0
    assert (tmp_path / "empty").read_text("utf-8") == ""
    wrapper = begin(1)
    eventually(beat.exists)
    eventually(lambda: list(scratch.glob("*.guard")))
    os.killpg(wrapper.pid, signal.SIGKILL)
    wrapper.wait()
    eventually(lambda: not list(scratch.iterdir()))
    size = beat.stat().st_size
    time.sleep(0.3)
    assert beat.stat().st_size == size


def test_a_status_that_the_scheduler_obeys_is_told_as_another(files: BatchFiles, tmp_path: Path) -> None:
    files.write_table([member(3, "exit 99", folder=tmp_path)])
    command = files.command(1).replace(" -m ", " -x '99 100' -m ")
    # The second start ends as the first did.
    for _ in range(2):
        assert subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True).returncode == 1
    assert files.read_ends({(3, 1)})[0][3, 1].to_event().exit == 99


def test_a_member_that_was_run_before_is_preempted() -> None:
    end = EndRecord(j=3, a=1, status=99, run=0.0, host="h", end=9.0, refused=True).to_event()
    assert (end.exit, end.signal, end.cause, end.reason) == (None, None, Cause.PREEMPTED, RUN_ONCE)


@pytest.mark.parametrize("fenced", ["lease", "told"])
def test_a_member_that_its_wrapper_killed_is_lost(files: BatchFiles, fenced: str) -> None:
    files.ends.mkdir(parents=True)
    (files.ends / "3.1").write_bytes(FENCED_RECORD.replace(b"lease", fenced.encode()))
    end = files.read_ends({(3, 1)})[0][3, 1].to_event()
    assert (end.exit, end.signal, end.cause, end.reason) == (None, 9, Cause.LOST, FENCED[fenced])


def test_the_wrapper_has_the_limit_of_the_engine() -> None:
    assert f"\n_limit={LEASE_S * 100} " in shipped_path("bin", WRAPPER.name).read_text("utf-8")


@pytest.mark.parametrize(
    ("status", "number"), [(None, None), (0, None), (1, None), (128, None), (143, 15), (255, None)]
)
def test_a_status_tells_of_a_signal(status: int | None, number: int | None) -> None:
    assert signal_in(status) == number


def test_the_wrapper_is_a_file_of_the_run(tmp_path: Path) -> None:
    ctx = Context(settings={}, site=Site(name="s"), paths=RunPaths(tmp_path), templates={"longshore-job": "text\n"})
    file = wrapper_file(ctx)
    assert (file.path, file.mode, "".join(file.chunks())) == (WRAPPER, 0o755, "text\n")
