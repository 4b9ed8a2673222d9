"""Cases of run directories: damaged ones, and ones of another user, whose checksums and digests all fit."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

import click
from tests.fuzz.kind import Files, Kind, NotReadError, Step
from tests.fuzz.mutate import alter_tree, mutate_text, mutate_tree

from longshore.cli.main import longshore
from longshore.contract.service import RunPaths
from longshore.control.resume import resume_all
from longshore.errors import LongshoreError
from longshore.model.json_lines import SEED, add_checksum
from longshore.reports.run_list import RunQuery, list_runs
from longshore.rundir.job_table import JobTable
from longshore.rundir.registry import RegistryEntry, write_entry
from longshore.rundir.run_directory import read_card
from longshore.runstate.events import RunEvents
from longshore.runstate.open_run import open_run

_ORIGINAL: Final = "origin"
"""File of a case that names the run directory of which it changes files."""
_GOOD: Final = "new"
"""Run directory that no case changes."""
_STATES: Final = frozenset({0, 10, 15, 16, 17, 19})
_FAILED: Final = frozenset({2, 3, 4, 5, 6, 7})
"""Exit statuses of errors; 1 is that of a bug."""


# -------------------------------------------------------------------------------------------------------- the files


def _journal(chance: Random, runs: Path) -> Files:
    """Damage one file of a run directory; in most cases its lines are whole, and its own checksums fit."""
    run = _choose_run(chance, runs)
    path = chance.choice(_weighted_files(run))
    return _files_of(run, {path.relative_to(run).as_posix(): _change(path, chance, odds_of_bytes=0.25)})


def _whole_run(chance: Random, runs: Path) -> Files:
    """Change one to three files of a run directory, and mend all checksums, seals and digests."""
    run = _choose_run(chance, runs)
    paths = chance.sample(_weighted_files(run), chance.choice((1, 1, 2, 3)))
    changed = {path.relative_to(run).as_posix(): _change(path, chance, odds_of_bytes=0.05) for path in paths}
    return _files_of(run, _resealed(run, changed))


def _files_of(run: Path, changed: Files) -> Files:
    named = {f"{run.name}/{name}": content for name, content in changed.items()}
    return {**named, _ORIGINAL: str(run).encode()}


def _choose_run(chance: Random, runs: Path) -> Path:
    return chance.choice(sorted(path for path in runs.iterdir() if (path / "run.json").exists()))


def _weighted_files(run: Path) -> list[Path]:
    files = sorted(
        path
        for path in run.rglob("*")
        if path.is_file() and path.relative_to(run).parts[0] not in {"inputs", "logs"} and path.suffix != ".py"
    )
    return [
        path
        for path in files
        for _ in range(8 if path.parent.name == "journal" else 3 if path.suffix in {".json", ".jsonl"} else 1)
    ]


def _change(path: Path, chance: Random, *, odds_of_bytes: float) -> bytes:
    text = path.read_bytes()
    if path.suffix not in {".json", ".jsonl"} or chance.random() < odds_of_bytes:
        return mutate_text(text, chance)
    if path.suffix == ".jsonl":
        return _lines(_changed_records(text, chance))
    if path.parent.name == "cache":
        # In front of it is the checksum of it and of the run's token.
        tree = json.loads(text[4:])
        changed = json.dumps(_changed(tree, [tree], chance)).encode()
        token = read_card(RunPaths(path.parent.parent)).run_token
        return crc32(changed, crc32(token.encode())).to_bytes(4) + changed
    tree = json.loads(text)
    if isinstance(tree, dict) and tree.pop("c", None) and len(tree) > 1:
        return _document(_changed(tree, [tree], chance))
    return json.dumps(_changed(tree, [tree], chance)).encode()


def _changed(tree: Any, donors: Sequence[Any], chance: Random) -> Any:
    return alter_tree(tree, chance) if chance.random() < 0.7 else mutate_tree(tree, donors, chance)


def _document(tree: Any) -> bytes:
    """Return a document with a checksum, if it can have one."""
    text = json.dumps(tree).encode()
    return add_checksum(text, SEED)[0] if isinstance(tree, dict) and tree else text


def _changed_records(text: bytes, chance: Random) -> list[Any]:
    records = [json.loads(line) for line in text.splitlines()]
    for _ in range(chance.choice((1, 1, 2))):
        row = chance.randrange(len(records))
        match chance.randrange(6):
            case 0:
                records.insert(chance.randrange(len(records)), records[row])
            case 1 if len(records) > 1:
                del records[row]
            case 2:
                records.append(records.pop(row))
            case _:
                checksum = records[row].pop("c", None) if isinstance(records[row], dict) else None
                records[row] = _changed(records[row], records, chance)
                if checksum and isinstance(records[row], dict):
                    records[row]["c"] = checksum
    return records


def _lines(records: Sequence[Any]) -> bytes:
    """Return records as lines, with checksums that fit if there were any."""
    # The jobs of a workflow have their commands as `c`.
    has_checksums = any(isinstance(record, dict) and "c" in record and "s" not in record for record in records)
    crc = SEED
    lines = []
    for record in records:
        if has_checksums and isinstance(record, dict) and len(record) > 1:
            payload = {name: value for name, value in record.items() if name != "c"}
            line, crc = add_checksum(json.dumps(payload, separators=(",", ":")).encode(), crc)
            lines.append(line)
        else:
            lines.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    return b"".join(lines)


# --------------------------------------------------------------------------------------------------- seals and digests


def _resealed(run: Path, changed: Files) -> Files:
    """Return changed files of a run, with manifests and seals that fit them, wherever these can be decoded."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        manifests = sorted(path.relative_to(run).as_posix() for path in run.glob("submissions/*.json"))
        digests = {name: sha256(_mend_manifest(run, changed, name)).hexdigest() for name in manifests}
        lengths: dict[int, tuple[int, int]] = {}
        for path in sorted(run.glob("journal/0*.jsonl")):
            name = path.relative_to(run).as_posix()
            text = changed.get(name, path.read_bytes())
            records = [json.loads(line) for line in text.splitlines()]
            if "c" not in records[0]:
                break
            for record in records:
                _mend_seals(record.get("lives", [record.get("seals")]), lengths)
            submission = f"submissions/{records[0].get('s', 1):04}.json"
            if submission in digests and "manifest" in records[0]:
                records[0]["manifest"] = digests[submission]
            changed[name] = text = _lines(records)
            lengths[int(path.stem)] = len(text), _crc_of(text)
        if (end_path := run / "journal/end.json").exists():
            end = json.loads(changed.get("journal/end.json", end_path.read_bytes()))
            _mend_seals([end], lengths)
            end.pop("c", None)
            changed["journal/end.json"] = _document(end)
    return changed


def _mend_manifest(run: Path, changed: Files, name: str) -> bytes:
    text = changed.get(name, (run / name).read_bytes())
    tree = json.loads(text)
    for path in tree["files"]:
        if path in changed:
            tree["files"][path] = {"size": len(changed[path]), "sha256": sha256(changed[path]).hexdigest()}
            tree.pop("c", None)
    if "c" not in tree:
        changed[name] = text = _document(tree)
    return text


def _mend_seals(seals: Any, lengths: dict[int, tuple[int, int]]) -> None:
    for seal in seals:
        if isinstance(seal, dict) and seal.get("life") in lengths and isinstance(seal.get("bytes"), int):
            seal["bytes"], seal["crc"] = lengths[seal["life"]]


def _crc_of(text: bytes) -> int:
    return crc32(text)


# ---------------------------------------------------------------------------------------------------------- the steps


def _steps(files: Files) -> Iterator[Step]:
    original = Path(files[_ORIGINAL].decode())
    run = Path(original.name).absolute()
    _place(original, run, files)
    good = original.parent / (_GOOD if original.name != _GOOD else f"{_GOOD}-again")
    # A new engine of a case ends at once: what its files say is not done.
    sys.executable = "/bin/false"
    os.environ["XDG_STATE_HOME"] = str(Path("state").absolute())
    yield partial(_parse, run)
    name = str(run)
    for words in (["status", name], ["report", name]):
        yield partial(_call_command, words, _STATES if words[0] == "status" else {0})
        yield partial(_call_command, [*words, "--json"], _STATES if words[0] == "status" else {0})
    yield partial(_call_command, ["verify", "--list", "--json", name], {0, 5})
    yield partial(_call_command, ["logs", "--failed", name], {0})
    yield partial(_call_command, ["events", name], {0})
    for job in ("0", "1"):
        yield partial(_call_command, ["explain", "--json", name, job], {0})
        yield partial(_call_command, ["show-job", name, job], {0})
    yield partial(_call_command, ["draw", name], {0})
    yield partial(_call_command, ["restart", "--dry-run", name], {0})
    yield partial(_list_runs, run, good)
    yield partial(_call_command, ["resume", name], {0})
    yield partial(_call_command, ["resume", "--accept-loss", name], {0})
    yield partial(_call_command, ["verify", name], {0, 5})
    yield partial(_call_command, ["report", name], {0})


def _place(original: Path, run: Path, files: Files) -> None:
    """Fill the folder of a case with the files that it does not change."""
    for path in original.rglob("*"):
        target = run / path.relative_to(original)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif f"{run.name}/{path.relative_to(original).as_posix()}" not in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def _parse(run: Path) -> None:
    """Read card, workflow and journal whole."""
    opened = open_run(str(run))
    JobTable(opened.run, "parents")
    list(RunEvents(opened))
    if opened.survey.damages:
        raise NotReadError


def _call_command(words: Sequence[str], expected: set[int] | frozenset[int]) -> None:
    """Call a command as the program does; its exit status must be one that the reference has for it."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", write_through=True)
    error: LongshoreError | None = None
    status = 0
    with redirect_stdout(output), redirect_stderr(io.StringIO()):
        command = longshore.get_command(click.Context(longshore), words[0])
        assert command is not None
        try:
            status = command.main([*words[1:]], prog_name="longshore", standalone_mode=False) or 0
        except LongshoreError as raised:
            error = raised
    if error is not None:
        assert error.exit_status in _FAILED, f"{words[0]} ends with {error.exit_status}: {error}"
        raise error
    assert status in {*expected, 6 if words[0] == "resume" else 0}, f"{words[0]} ends with {status}"
    if "--json" in words:
        json.loads(output.buffer.getvalue())


def _list_runs(run: Path, good: Path) -> None:
    """List the runs of the registry, and resume them all: a bad one does not hide the good one."""
    card = read_card(RunPaths(good))
    write_entry(RegistryEntry.of(card, str(good)))
    with suppress(LongshoreError):
        write_entry(RegistryEntry.of(read_card(RunPaths(run)), str(run)))
    shown = list_runs(RunQuery(days=1e6), now=time.time()).reports
    assert card.id in [report.id for report in shown], "a bad run hides a good one"
    resume_all()


DAMAGED_RUN: Final = Kind(make=_journal, steps=_steps, has_runs=True)
FOREIGN_RUN: Final = Kind(make=_whole_run, steps=_steps, has_runs=True)
