"""Files between an engine and a pilot: each order is taken once, and each record is on the disk or written again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.batch.pilots.pilot_box import PilotBox

from longshore.keeper.program.kernel import system
from longshore.model.json_lines import SEED, check_block
from longshore.services.batch.pilots.program.pilot_mailbox import Mailbox, OrderReader, RecordWriter


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    assert OrderReader(str(tmp_path)).read() == ([], [])


@given(cuts=st.lists(st.integers(0, 200), max_size=8), zeros=st.integers(0, 30))
def test_orders_are_taken_once_whatever_is_shown_of_them(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], zeros: int
) -> None:
    box = PilotBox(tmp_path_factory.mktemp("box"))
    lines = [box.encode({"o": "back", "n": number}) for number in range(4)]
    text = b"".join(lines)
    path = box.mail / "orders.1"
    reader = OrderReader(str(box.mail))
    taken: list[bytes] = []
    for cut in [*sorted(cuts), len(text)]:
        # The length of a file may be seen before what is in it.
        path.write_bytes(text[:cut] + b"\0" * (zeros if cut < len(text) else 0))
        taken += reader.read()[0]
    taken += reader.read()[0]
    assert taken == [b'{"o":"back","n":%d}' % number for number in range(4)]
    assert reader.offset == len(text)


def test_a_new_file_ends_the_one_before(tmp_path: Path) -> None:
    box = PilotBox(tmp_path)
    box.order(o="end")
    reader = OrderReader(str(box.mail))
    assert reader.read() == ([], [(1, 0, 0)])
    size = (box.mail / "orders.1").stat().st_size
    late = box.encode({"o": "back", "n": 1})
    box.begin_life()
    assert reader.read() == ([b'{"o":"end"}'], [(2, 1, size)])
    box.write(late, generation=1)
    box.order(o="back", n=2)
    assert reader.read() == ([b'{"o":"back","n":2}'], [])


def test_records_have_a_running_checksum(tmp_path: Path) -> None:
    writer = RecordWriter(str(tmp_path / "records"))
    sizes = [writer.add({"r": "beat", "k": number}) for number in range(3)]
    assert writer.write()
    assert not writer.write()
    text = (tmp_path / "records").read_bytes()
    assert check_block(text, SEED) is not None
    assert sizes[-1] == writer.added == writer.durable == len(text)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    RecordWriter(str(tmp_path / "records"))
    with pytest.raises(FileExistsError):
        RecordWriter(str(tmp_path / "records"))


def test_what_a_failed_synchronisation_left_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records"
    writer = RecordWriter(str(path))
    writer.add({"r": "beat", "k": 1})
    writer.write()
    writer.add({"r": "beat", "k": 2})
    with monkeypatch.context() as failing:
        failing.setattr(system, "fsync", lambda _file: (_ for _ in ()).throw(OSError(5, "input/output error")))
        with pytest.raises(OSError, match="input/output error"):
            writer.write()
    assert writer.durable < writer.added
    # What was written may have gone, as after a server has come back.
    path.write_bytes(path.read_bytes()[: writer.durable] + b"\0" * 5)
    writer.add({"r": "beat", "k": 3})
    writer.write()
    assert path.read_bytes().count(b"\n") == 3
    assert check_block(path.read_bytes(), SEED) is not None


def test_a_mailbox_writes_its_last_records(tmp_path: Path) -> None:
    woken = threading.Event()
    mailbox = Mailbox(str(tmp_path), woken.set)
    mailbox.start()
    mailbox.records.add({"r": "beat", "k": 1})
    mailbox.send()
    assert woken.wait(30)
    mailbox.records.add({"r": "closed", "why": "idle"})
    assert mailbox.finish(30)
    assert (tmp_path / "records").read_bytes().count(b"\n") == 2
