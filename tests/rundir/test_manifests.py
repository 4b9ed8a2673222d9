"""Manifests: every change of a listed file is found, and a damaged manifest is never taken for a good one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import RunPaths
from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.model.json_lines import encode_document
from longshore.model.submission import FileDigest, Manifest, RunIdentity, Submission, decode_manifest
from longshore.rundir.run_directory import RUN_FORMAT, read_card, write_card
from longshore.rundir.submissions import (
    accept_changes,
    create_manifest,
    find_changed_files,
    hash_file,
    manifest_path,
    read_manifest,
    refuse_changed_files,
    take_manifest,
)

CARD = RunIdentity(
    format=RUN_FORMAT, id="k1", name="n", service="local", longshore="1", created_at=0.5, expected=2, labels={"a": 2}
)
SUBMISSION = Submission(id="k1", by="submit", at=1.0, user="me", host="here")
NAMES = ("workflow.jsonl", "inputs/run.yaml", "wms/engine.json", "wms/empty")

manifests = st.builds(
    Manifest,
    v=st.just(1),
    number=st.integers(1, 9999),
    run=st.text(),
    card=st.text("0123456789abcdef", min_size=64, max_size=64),
    workflow=st.just("workflow.jsonl"),
    job_map=st.none() | st.text(),
    files=st.dictionaries(st.text(), st.builds(FileDigest, st.integers(0, 2**60), st.text()), max_size=4),
    inputs=st.dictionaries(st.text(), st.builds(FileDigest, st.integers(0, 2**60), st.text()), max_size=2),
)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "run")
    for name in NAMES:
        path = found.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name.endswith("empty") else f"content of {name}\n" * 5, "utf-8")
    write_card(found, CARD)
    create_manifest(found, take_manifest(found, CARD, inputs={"inputs/run.yaml"}))
    return found


def changed(run: RunPaths, *, with_inputs: bool = False) -> list[str]:
    manifest = read_manifest(run)
    assert manifest is not None
    return [change.path for change in find_changed_files(run, manifest, with_inputs=with_inputs)]


@given(manifest=manifests)
def test_a_manifest_comes_back_as_it_was(manifest: Manifest) -> None:
    assert decode_manifest(encode_document(manifest), path="p", run="r") == manifest


@given(manifest=manifests, data=st.data())
def test_no_changed_byte_of_a_manifest_is_accepted(manifest: Manifest, data: st.DataObject) -> None:
    text = encode_document(manifest)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[place]))
    with pytest.raises(RunUnreadableError):
        decode_manifest(text[:place] + bytes([other]) + text[place + 1 :], path="p", run="r")


@given(manifest=manifests, data=st.data())
def test_no_cut_of_a_manifest_is_accepted(manifest: Manifest, data: st.DataObject) -> None:
    text = encode_document(manifest)
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    with pytest.raises(RunUnreadableError):
        decode_manifest(text[:begin] + text[end:], path="p", run="r")


def test_a_damaged_manifest_is_told_with_the_directory_of_its_run(run: RunPaths) -> None:
    path = next(run.submissions.iterdir())
    path.write_bytes(path.read_bytes().replace(b'"', b"'", 1))
    with pytest.raises(RunUnreadableError) as caught:
        read_manifest(run)
    assert f"'longshore verify {run.root}' names what else" in caught.value.hint


def test_all_files_are_listed_except_those_left_out(run: RunPaths, tmp_path: Path) -> None:
    moved = tmp_path / "graph.qg"
    moved.write_bytes(b"graph")
    manifest = take_manifest(run, CARD, moved=[moved], left_out={"wms/empty"}, inputs={"inputs/run.yaml"})
    assert set(manifest.files) == {"workflow.jsonl", "wms/engine.json", "submissions/0001.json", "graph.qg"}
    assert set(manifest.inputs) == {"inputs/run.yaml"}
    assert manifest.files["graph.qg"] == hash_file(moved)


def test_nothing_changed(run: RunPaths) -> None:
    os.utime(run.workflow)
    write_card(run, msgspec.structs.replace(CARD, submissions=(SUBMISSION,)))
    assert changed(run, with_inputs=True) == []
    assert refuse_changed_files(run) == read_manifest(run)


@pytest.mark.parametrize("name", [*NAMES, "run.json"])
def test_a_changed_file_is_found_and_named(run: RunPaths, name: str) -> None:
    path = run.root / name
    path.write_bytes(path.read_bytes() + b" ")
    assert changed(run, with_inputs=True) == [name]
    if name.startswith("inputs/"):
        assert changed(run) == []
    else:
        with pytest.raises(SubmissionRefusedError, match=f"'{path}' has another content now.*nothing was started"):
            refuse_changed_files(run)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_found(run: RunPaths, name: str) -> None:
    (run.root / name).unlink()
    assert changed(run, with_inputs=True) == [name]


def test_a_pipe_in_the_place_of_a_file_blocks_nobody(run: RunPaths) -> None:
    run.workflow.unlink()
    os.mkfifo(run.workflow)
    assert changed(run) == ["workflow.jsonl"]


@given(data=st.data())
def test_no_flipped_bit_of_a_card_is_accepted(run: RunPaths, data: st.DataObject) -> None:
    write_card(run, msgspec.structs.replace(CARD, submissions=(SUBMISSION,)))
    text = run.card.read_bytes()
    place = data.draw(st.integers(0, len(text) - 1))
    run.card.write_bytes(text[:place] + bytes([text[place] ^ 1 << data.draw(st.integers(0, 7))]) + text[place + 1 :])
    with suppress(RunUnreadableError):  # it is no card at all, which is told
        assert changed(run) == ["run.json"]


def test_another_identity_with_a_good_checksum_is_found(run: RunPaths) -> None:
    write_card(run, msgspec.structs.replace(CARD, labels={"b": 2}))
    assert changed(run) == ["run.json"]


def test_a_name_outside_the_run_directory_is_damage(run: RunPaths) -> None:
    manifest = read_manifest(run)
    assert manifest is not None
    for name in ("../outside", "/dev/zero"):
        odd = msgspec.structs.replace(manifest, files={name: FileDigest(1, "0")})
        assert [each.what for each in find_changed_files(run, odd)] == ["is not in the run directory"]


def test_changes_of_a_run_that_was_not_submitted_can_be_accepted(run: RunPaths) -> None:
    run.workflow.write_bytes(b"by hand\n")
    (run.root / "wms" / "empty").unlink()
    manifest = read_manifest(run)
    assert manifest is not None
    accept_changes(run, manifest)
    assert changed(run, with_inputs=True) == []


def test_a_run_without_manifest_has_an_older_format_or_lost_it(run: RunPaths) -> None:
    manifest_path(run, 1).unlink()
    with pytest.raises(RunUnreadableError, match=r"submissions/0001\.json' cannot be read: No such file"):
        read_manifest(run)
    write_card(run, msgspec.structs.replace(CARD, format=1))
    assert read_manifest(run) is None
    assert refuse_changed_files(run) is None
    assert read_card(run).format == 1
    assert b'"c"' not in run.card.read_bytes()


def test_a_newer_manifest_is_refused(run: RunPaths) -> None:
    manifest = read_manifest(run)
    assert manifest is not None
    newer = encode_document(msgspec.structs.replace(manifest, v=99))
    with pytest.raises(RunUnreadableError, match="has format 99; this Longshore reads up to 2"):
        decode_manifest(newer, path="p", run="r")
