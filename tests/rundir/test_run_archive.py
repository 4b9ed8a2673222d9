"""Archives have the content of a directory, whatever its names, and no clock; a strange or damaged one is refused."""

from __future__ import annotations

import bz2
import errno
import io
import lzma
import os
import random
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.errors import RunUnreadableError
from longshore.rundir import run_archive
from longshore.rundir.archive_names import SUFFIXES
from longshore.rundir.run_archive import list_tree, read_archive, write_archive
from longshore.system.files import files

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
    lambda name: name not in {".", ".."} and len(name.encode()) < 200
)
trees = st.dictionaries(
    names, st.binary(max_size=3000) | st.dictionaries(names, st.binary(max_size=30), max_size=3), max_size=5
)


def packed(root: Path, suffix: str) -> bytes:
    output = io.BytesIO()
    write_archive(root, output, suffix=suffix)
    return output.getvalue()


def unpacked(path: Path) -> dict[str, bytes]:
    return {name: b"".join(content.pieces()) for name, _, content in read_archive(path) if content is not None}


@given(trees, st.sampled_from(SUFFIXES))
@settings(max_examples=examples(40))
def test_an_archive_gives_back_what_was_there_and_is_the_same_for_the_same(
    tree: dict[str, bytes | dict[str, bytes]], suffix: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "run")
        root.mkdir()
        expected = {}
        for name, value in tree.items():
            if isinstance(value, bytes):
                (root / name).write_bytes(value)
                expected[name] = value
                continue
            (root / name).mkdir()
            for inner, content in value.items():
                (root / name / inner).write_bytes(content)
                expected[f"{name}/{inner}"] = content
        for path in (*root.rglob("*"), root):
            os.utime(path, (1.5, 1.5))
        archive = Path(folder, f"x{suffix}")
        archive.write_bytes(packed(root, suffix))
        assert unpacked(archive) == expected
        assert packed(root, suffix) == archive.read_bytes()


@given(st.data(), st.sampled_from(SUFFIXES))
@settings(max_examples=examples(40))
def test_a_cut_or_changed_archive_is_refused(data: st.DataObject, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "run")
        root.mkdir()
        (root / "a").write_bytes(random.Random(1).randbytes(3000))
        (root / "b").write_bytes(b"b" * 5000)
        for path in (root, *root.iterdir()):
            os.utime(path, (1.5, 1.5))
        whole = packed(root, suffix)
        expected = {"a": (root / "a").read_bytes(), "b": b"b" * 5000}
        archive = Path(folder, f"x{suffix}")
        place = data.draw(st.integers(0, len(whole) - 1))
        cut = data.draw(st.booleans())
        archive.write_bytes(whole[:place] if cut else whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            found = unpacked(archive)
        except RunUnreadableError as error:
            assert str(archive) in error.message  # noqa: PT017 - not all changes are damage
        else:
            # A bit of a header that says nothing of the content, such as the operating system in that of gzip.
            assert found == expected
            assert not cut


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("strange", "why"),
    [
        (member("/etc/passwd"), "leads out of its directory"),
        (member("run/../../x"), "leads out of its directory"),
        (member("other/x"), "leads out of its directory"),
        (member("run/x", tarfile.SYMTYPE, "/etc/passwd"), "is a link or a device"),
        (member("run/x", tarfile.LNKTYPE, "run/run.json"), "is a link or a device"),
        (member("run/x", tarfile.CHRTYPE), "is a link or a device"),
        (member("run/x", tarfile.FIFOTYPE), "is a link or a device"),
        (member("run/run.json"), "comes twice"),
    ],
)
def test_a_strange_member_is_refused_and_named(tmp_path: Path, strange: tarfile.TarInfo, why: str) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(member("run/run.json"))
        tar.addfile(strange)
    with pytest.raises(RunUnreadableError, match=why) as raised:
        unpacked(path)
    assert f"'{strange.name}'" in raised.value.message


def extended(**records: str) -> tarfile.TarInfo:
    info = member("run/x")
    info.pax_headers = {key.replace("__", "."): value for key, value in records.items()}
    return info


@pytest.mark.parametrize(
    "strange",
    [
        *(extended(mtime=value) for value in ("inf", "nan", "-inf", "1e300", "")),
        *(extended(size=value) for value in ("inf", "nan", "-1", "1e3", "9" * 30)),
        extended(GNU__sparse__major="1"),
        extended(path="run/./run.json"),
        extended(path="run//run.json"),
        extended(path="run/" + "x" * 5000),
        extended(comment="x" * 100_000),
        member("run/x", tarfile.GNUTYPE_SPARSE),
        member("run/x", tarfile.CONTTYPE),
        member("run/run.json/x"),
        member("."),
    ],
    ids=lambda info: str(info.pax_headers or info.name)[:40],
)
def test_a_member_that_no_archive_of_a_run_has_is_damage(tmp_path: Path, strange: tarfile.TarInfo) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member("run/run.json"))
        tar.addfile(strange)
    with pytest.raises(RunUnreadableError, match="is damaged, or none"):
        unpacked(path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    header = member("././@LongLink", kind)
    header.size = 3 << 30
    path = tmp_path / "x.tar.bz2"
    path.write_bytes(bz2.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(RunUnreadableError, match="is damaged, or none"):
        unpacked(path)


def test_nothing_is_behind_the_end(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}", "utf-8")
    whole = packed(tmp_path / "run", ".tar.gz")
    path = tmp_path / "x.tar.gz"
    path.write_bytes(whole + whole)
    with pytest.raises(RunUnreadableError, match="something follows its end"):
        unpacked(path)


def test_content_and_memory_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log").write_bytes(bytes(8 << 20))
    path = tmp_path / "x.tar.bz2"
    path.write_bytes(packed(tmp_path / "run", ".tar.bz2"))
    assert len(unpacked(path)["log"]) == 8 << 20
    monkeypatch.setattr(run_archive, "_MOST_B", 1 << 20)
    with pytest.raises(RunUnreadableError, match="far more content than its size allows"):
        unpacked(path)
    path = tmp_path / "x.tar.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20}]
    path.write_bytes(lzma.compress(packed(tmp_path / "run", ".tar.gz"), filters=filters))
    with pytest.raises(RunUnreadableError, match="Memory usage limit"):
        unpacked(path)


def test_the_card_is_the_first_member(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("journal", "run.json", "status.json"):
        (tmp_path / "run" / name).touch()
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed(tmp_path / "run", ".tar.gz"))
    assert [*unpacked(path)] == ["run.json", "journal", "status.json"]


def test_links_and_pipes_are_listed_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a", "utf-8")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    assert list_tree(tmp_path) == (["a"], ["link", "pipe"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_archive_that_the_disk_does_not_give_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(files, "open", refuse)
    with pytest.raises(RunUnreadableError) as refused:
        list(read_archive(tmp_path / f"x{suffix}"))
    assert refused.value.message == f"'{tmp_path}/x{suffix}' cannot be read: Input/output error"
