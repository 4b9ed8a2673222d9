"""The stage program copies inputs to a scratch directory, and publishes outputs, in any POSIX shell."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "longshore-stage"
SHELLS = [path for shell in ("dash", "bash", "ksh", "mksh") if (path := shutil.which(shell))]
MISSING, TRANSFER = 66, 74
ODD_NAMES = ("a b", "it's", 'two\nlines "x"', "tab\there", "back\\slash", "-n", "$HOME", "star*")


class Staged(NamedTuple):
    status: int
    record: dict[str, Any]
    errors: str


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def line(*fields: str | Path) -> str:
    texts = (str(each).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") for each in fields)
    return "\t".join(texts) + "\n"


def arguments(shell: str, folder: Path, table: str, command: str, *options: str, attempt: int = 1) -> list[str]:
    """Words that stage a job, with a new scratch directory for each attempt."""
    (folder / f"tmp{attempt}").mkdir()
    record = folder / "records" / f"7.{attempt}"
    words = [shell, str(PROGRAM), *options, "-n", f"7.{attempt}", "-r", str(record), "-t", table]
    return [*words, "/bin/sh", "-c", command]


def environment(folder: Path, attempt: int = 1) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder / f"tmp{attempt}")}


def read_record(folder: Path, attempt: int = 1) -> dict[str, Any]:
    record = json.loads((folder / "records" / f"7.{attempt}").read_text("utf-8"))
    assert {name: value for name, value in record.items() if name != "again"} == record["again"]
    return dict(record["again"])


def stage(
    shell: str, folder: Path, lines: Sequence[str], command: str, *options: str, attempt: int = 1, limit: str = ""
) -> Staged:
    words = arguments(shell, folder, "".join(lines), command, *options, attempt=attempt)
    if limit:
        words = ["/bin/sh", "-c", f"{limit}; exec {shlex.join(words)}"]
    ran = subprocess.run(
        words, check=False, timeout=60, env=environment(folder, attempt), cwd=folder, capture_output=True, text=True
    )
    return Staged(ran.returncode, read_record(folder, attempt), ran.stderr)


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".longshore-stage*"))


def test_inputs_are_copied_and_outputs_published_with_their_sizes(shell: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("12345", "utf-8")
    (tmp_path / "other").write_text("678", "utf-8")
    lines = [
        line("i", tmp_path / "in", "data/in"),
        line("i", tmp_path / "other", "data/other"),
        line("o", "out", tmp_path / "made" / "out"),
        line("o", "more", tmp_path / "made" / "more"),
    ]
    staged = stage(shell, tmp_path, lines, 'cat data/in data/other > out; echo x > more; pwd; test "$PWD" = "$(pwd)"')
    assert staged.status == 0, staged.errors
    assert (tmp_path / "made" / "out").read_text("utf-8") == "12345678"
    record = staged.record
    assert (record["end"], record["files_in"], record["bytes_in"]) == ("done", 2, 8)
    assert (record["files_out"], record["bytes_out"], record["kept"], record["missing"]) == (2, 10, 0, [])
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["more", "out"]


def test_any_name_is_exact(shell: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source dir", tmp_path / "target's dir"
    source.mkdir()
    for name in ODD_NAMES:
        (source / name).write_text(name, "utf-8")
    lines = [line("i", source / name, f"in/{name}") for name in ODD_NAMES]
    lines += [line("o", f"in/{name}", target / name) for name in ODD_NAMES]
    staged = stage(shell, tmp_path, lines, "true")
    assert staged.status == 0, staged.errors
    assert {path.name: path.read_text("utf-8") for path in target.iterdir()} == {name: name for name in ODD_NAMES}
    size = sum(map(len, ODD_NAMES))
    assert (staged.record["bytes_in"], staged.record["bytes_out"]) == (size, size)


def test_a_table_may_be_a_file(shell: str, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text(line("o", "out", tmp_path / "out"), "utf-8")
    (tmp_path / "tmp1").mkdir()
    words = [shell, str(PROGRAM), str(table), "/bin/sh", "-c", "echo x > out"]
    assert subprocess.run(words, check=False, timeout=30, env=environment(tmp_path)).returncode == 0
    assert (tmp_path / "out").read_text("utf-8") == "x\n"


def test_a_missing_input_is_named_and_the_command_is_not_run(shell: str, tmp_path: Path) -> None:
    (tmp_path / "in").touch()
    lines = [line("i", tmp_path / "in", "in"), line("i", tmp_path / "no such", "x"), line("o", "in", tmp_path / "out")]
    staged = stage(shell, tmp_path, lines, f"touch {tmp_path}/ran")
    assert (staged.status, staged.record["end"], staged.record["at"]) == (MISSING, "missing", 1)
    assert f"the input '{tmp_path}/no such' is missing" in staged.errors
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("options", "is_published"), [((), False), (("-g", "0 3"), True)])
def test_the_status_is_the_commands_and_only_a_success_publishes(
    shell: str, tmp_path: Path, options: tuple[str, ...], is_published: bool
) -> None:
    staged = stage(shell, tmp_path, [line("o", "out", tmp_path / "out")], "touch out; exit 3", *options)
    assert (staged.status, staged.record["status"]) == (3, 3)
    assert (tmp_path / "out").exists() is is_published


def test_the_signal_that_ended_the_command_ends_the_program(shell: str, tmp_path: Path) -> None:
    staged = stage(shell, tmp_path, [line("o", "out", tmp_path / "out")], "touch out; kill -s KILL $$")
    assert (staged.status, staged.record["end"]) == (-signal.SIGKILL, "failed")
    assert not (tmp_path / "out").exists()


def test_directories_and_patterns_are_published(shell: str, tmp_path: Path) -> None:
    (tmp_path / "tree" / "deep er").mkdir(parents=True)
    (tmp_path / "tree" / "deep er" / "leaf").write_text("leaf", "utf-8")
    lines = [
        line("i", tmp_path / "tree", "tree"),
        line("o", "tree", tmp_path / "copy" / "tree"),
        line("p", "parts/*.txt", tmp_path / "parts"),
    ]
    staged = stage(shell, tmp_path, lines, "echo a > 'parts/a b.txt'; echo c > parts/c.txt; touch parts/n")
    assert staged.status == 0, staged.errors
    assert (tmp_path / "copy" / "tree" / "deep er" / "leaf").read_text("utf-8") == "leaf"
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["a b.txt", "c.txt"]
    record = staged.record
    assert (record["bytes_in"], record["files_out"], record["bytes_out"]) == (4, 3, 8)
    assert leftovers(tmp_path / "copy") == []


def test_what_was_there_before_is_replaced(shell: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old", "utf-8")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "old").touch()
    lines = [line("o", "out", tmp_path / "out"), line("o", "tree", tmp_path / "tree")]
    staged = stage(shell, tmp_path, lines, "echo new > out; mkdir tree; touch tree/new")
    assert (staged.status, staged.record["kept"]) == (0, 0), staged.errors
    assert (tmp_path / "out").read_text("utf-8") == "new\n"
    assert [path.name for path in (tmp_path / "tree").iterdir()] == ["new"]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("is_directory", [False, True])
def test_what_was_there_before_is_replaced_in_every_directory(shell: str, tmp_path: Path, is_directory: bool) -> None:
    # The last output has the name of an entry of the one before it.
    names = ["one/made", "two/first", "two/old"]
    command = []
    for name in names:
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        if is_directory:
            (target / "old").mkdir(parents=True)
            (target / "old" / "before").touch()
            command.append(f"mkdir -p {name}; echo new >{name}/file")
        else:
            target.write_text("old", "utf-8")
            command.append(f"echo new >{name}")
    lines = [line("o", name, tmp_path / name) for name in names]
    staged = stage(shell, tmp_path, lines, "; ".join(command), attempt=2)
    assert (staged.status, staged.record["kept"]) == (0, 0), staged.errors
    for name in names:
        target = tmp_path / name
        if is_directory:
            assert [path.name for path in target.iterdir()] == ["file"]
        else:
            assert target.read_text("utf-8") == "new\n"
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("before", [None, "old"])
def test_the_first_publication_holds(shell: str, tmp_path: Path, before: str | None) -> None:
    out, more, tree = tmp_path / "out", tmp_path / "more", tmp_path / "tree"
    if before:
        out.write_text(before, "utf-8")
    lines = [line("o", "out", out), line("o", "more", more), line("o", "tree", tree)]
    # Another attempt publishes while this one runs.
    other = f"echo first > {out}.new; mv {out}.new {out}; mkdir {tree}; touch {tree}/first"
    staged = stage(shell, tmp_path, lines, f"{other}; echo second > out; echo x > more; mkdir tree; touch tree/second")
    assert (staged.status, staged.record["kept"]) == (0, 2), staged.errors
    assert (out.read_text("utf-8"), more.read_text("utf-8")) == ("first\n", "x\n")
    assert [path.name for path in tree.iterdir()] == ["first"]
    assert leftovers(tmp_path) == []


def test_a_command_transfers_files(shell: str, tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("5", "utf-8")
    lines = [
        line("t", f'echo "$1" >> {tmp_path}/calls; cp "$1" "$2"'),
        line("i", tmp_path / "a b", "a b"),
        line("o", "a b", tmp_path / "made" / "c d"),
        line("t", f'cp "$1" {tmp_path}/"${{2##*/}}"'),
        line("u", "a b", "store://bucket/object"),
    ]
    staged = stage(shell, tmp_path, lines, "true")
    assert staged.status == 0, staged.errors
    assert (tmp_path / "made" / "c d").read_text("utf-8") == (tmp_path / "object").read_text("utf-8") == "5"
    calls = [tmp_path / "a b", tmp_path / "tmp1" / "work" / "a b"]
    assert (tmp_path / "calls").read_text("utf-8").splitlines() == list(map(str, calls))


def test_a_failed_transfer_leaves_no_half_file(shell: str, tmp_path: Path) -> None:
    lines = [line("o", "first", tmp_path / "first"), line("t", 'head -c 2 "$1" > "$2"; exit 5')]
    lines.append(line("o", "out", tmp_path / "out"))
    staged = stage(shell, tmp_path, lines, "echo 12345 > out; echo x > first")
    assert (staged.status, staged.record["end"], staged.record["at"]) == (TRANSFER, "transfer", 1)
    assert not (tmp_path / "out").exists()
    assert leftovers(tmp_path) == []
    # What was not published is not counted.
    assert (staged.record["files_out"], staged.record["bytes_out"]) == (1, 2)


@pytest.mark.parametrize("is_open", [True, False])
def test_only_published_outputs_are_counted(shell: str, tmp_path: Path, is_open: bool) -> None:
    made = tmp_path / "made"
    made.mkdir()
    names = ("a b", "it's", "c")
    lines = [line("o", name, made / name) for name in names]
    command = "; ".join(f"echo x > {shlex.quote(name)}" for name in names)
    staged = stage(shell, tmp_path, lines, command if is_open else f"{command}; rmdir {made}; touch {made}")
    counts = (staged.record["files_out"], staged.record["bytes_out"])
    assert (staged.status, counts) == ((0, (3, 6)) if is_open else (TRANSFER, (0, 0)))


def test_a_transfer_killed_half_way_leaves_no_half_file_and_the_next_attempt_cleans_up(
    shell: str, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    half = f'head -c 2 "$1" > "$2"; touch {tmp_path}/half; sleep 60'
    table = line("t", half) + line("o", "out", made / "out")
    words = arguments(shell, tmp_path, table, "echo 12345 > out")
    running = subprocess.Popen(words, env=environment(tmp_path), start_new_session=True)
    while not (tmp_path / "half").exists():
        assert running.poll() is None
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(timeout=30)
    assert not (made / "out").exists()
    assert leftovers(made)
    staged = stage(shell, tmp_path, [line("o", "out", made / "out")], "echo 12345 > out", attempt=2)
    assert staged.status == 0, staged.errors
    assert [path.name for path in made.iterdir()] == ["out"]


def test_what_a_lost_attempt_may_still_publish_loses_its_name_before_its_content(shell: str, tmp_path: Path) -> None:
    left = tmp_path / "made" / ".longshore-stage.7.1.99"
    (left / "tree").mkdir(parents=True)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "rm").write_text(f'#!/bin/sh\n[ ! -e {left} ] || touch {tmp_path}/half\nexec /bin/rm "$@"\n', "utf-8")
    (programs / "rm").chmod(0o755)
    words = arguments(shell, tmp_path, line("o", "tree", tmp_path / "made" / "tree"), "mkdir tree", attempt=2)
    env = {**environment(tmp_path, 2), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    assert subprocess.run(words, env=env, check=False, timeout=60).returncode == 0
    assert not (tmp_path / "half").exists()
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["tree"]


@pytest.mark.parametrize("is_input", [True, False])
def test_a_full_disk_is_a_failed_transfer(shell: str, tmp_path: Path, is_input: bool) -> None:
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    source = line("i", tmp_path / "large", "in")
    target = line("o", tmp_path.name, tmp_path / "out")
    # Programs may write no file above 64 KiB; the command makes its output without writing.
    staged = stage(
        shell,
        tmp_path,
        [source] if is_input else [target],
        f"ln -s {tmp_path}/large {shlex.quote(tmp_path.name)}",
        limit="ulimit -f 128",
    )
    assert (staged.status, staged.record["end"]) == (TRANSFER, "transfer")
    assert not (tmp_path / "out").exists()
    assert leftovers(tmp_path) == []


def test_an_output_that_was_not_made_is_recorded(shell: str, tmp_path: Path) -> None:
    lines = [line("o", "out", tmp_path / "out"), line("o", "none", tmp_path / "none"), line("p", "*.x", tmp_path / "x")]
    staged = stage(shell, tmp_path, lines, "touch out")
    assert (staged.status, staged.record["missing"]) == (0, [1, 2])
    assert (tmp_path / "out").exists()


def test_a_signal_reaches_the_command(shell: str, tmp_path: Path) -> None:
    command = f"trap 'echo told > out; exit 0' TERM; touch {tmp_path}/begun; while :; do sleep 0.05; done"
    words = arguments(shell, tmp_path, line("o", "out", tmp_path / "out"), command, "-s")
    running = subprocess.Popen(words, env=environment(tmp_path))
    while not (tmp_path / "begun").exists():
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGTERM)
    assert running.wait(timeout=30) == 0
    assert (tmp_path / "out").read_text("utf-8") == "told\n"


def test_many_and_large_files(shell: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    names = [f"{number:03}" for number in range(450)]
    for name in names:
        (tmp_path / "in" / name).write_text(name, "utf-8")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(3 << 30)
    lines = [line("i", tmp_path / "in" / name, f"in/{name}") for name in names]
    lines += [line("i", tmp_path / "large", "large")]
    lines += [line("o", f"in/{name}", tmp_path / "out" / name) for name in names]
    staged = stage(shell, tmp_path, lines, "true")
    assert staged.status == 0, staged.errors
    assert len(list((tmp_path / "out").iterdir())) == len(names)
    assert (staged.record["bytes_in"], staged.record["files_out"]) == (3 * 450 + (3 << 30), 450)


def test_a_path_outside_of_the_scratch_directory_is_refused(shell: str, tmp_path: Path) -> None:
    (tmp_path / "in").touch()
    words = arguments(shell, tmp_path, line("i", tmp_path / "in", "../../in2"), "true")
    ran = subprocess.run(words, check=False, timeout=30, env=environment(tmp_path), capture_output=True, text=True)
    assert ran.returncode == 2
    assert "leaves the directory" in ran.stderr
    assert not (tmp_path / "in2").exists()


def test_an_input_that_the_command_removed_has_no_size(shell: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("123", "utf-8")
    (tmp_path / "other").write_text("45", "utf-8")
    lines = [line("i", tmp_path / name, name) for name in ("in", "other")] + [line("o", "out", tmp_path / "out")]
    staged = stage(shell, tmp_path, lines, "rm in; echo x > out")
    assert staged.status == 0, staged.errors
    assert (staged.record["files_in"], staged.record["bytes_in"], staged.record["bytes_out"]) == (2, 2, 2)


@pytest.mark.parametrize("has_directory", [False, True])
def test_a_brief_record_has_no_sizes_of_plain_files(shell: str, tmp_path: Path, has_directory: bool) -> None:
    (tmp_path / "in").write_text("123", "utf-8")
    lines = [line("i", tmp_path / "in", "in"), line("o", "out", tmp_path / "out")]
    command = "mkdir out; cp in out/in" if has_directory else "cp in out"
    record = stage(shell, tmp_path, lines, command, "-b").record
    assert (record["files_in"], record["files_out"]) == (1, 1)
    assert (record["bytes_in"], record["bytes_out"]) == ((3, 3) if has_directory else (-1, -1))
