"""The engine's link to a pilot by files: late and damaged records, older orders, silence, and failing writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longshore.services.batch.pilots.pilot_link import CheckedWriter, PilotLink
from longshore.services.batch.pilots.pilot_state import HandedState
from longshore.services.batch.pilots.work_queue import QueuedMember, WorkKind
from longshore.system.files import files

_KIND = WorkKind(1, 0, None, 7)
_ENVIRONMENTS = {7: b'{"o":"env","id":7,"on":0,"env":{}}'}


class Mailbox:
    """A mailbox and the records that a pilot writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = CheckedWriter(folder / "records", below=folder)
        self.record(r="pilot", v=1, node=0, host="n", boot="", pid=2, cpus=2, memory=1000, until=-1.0)

    def record(self, **record: object) -> None:
        """Write a record."""
        self.records.add(json.dumps(record).encode())
        self.records.flush()

    def link(self, *, is_gone: bool = False) -> PilotLink:
        """Return the link of a new life."""
        return PilotLink((1, 0), self.folder, below=self.folder, is_gone=is_gone)

    def orders(self, generation: int) -> list[dict[str, object]]:
        """Return the orders of a life."""
        text = (self.folder / f"orders.{generation}").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def mailbox(tmp_path: Path) -> Mailbox:
    return Mailbox(tmp_path)


def hand(link: PilotLink, *jobs: int) -> None:
    """Hand the first attempts of jobs to a pilot."""
    members = [QueuedMember((job, 1), "t-1-1", 1, b'{"j":%d,"a":1}' % job, b'{"e":7}') for job in jobs]
    link.hand(members, _KIND, 1, _ENVIRONMENTS)
    link.flush()


def test_an_environment_is_sent_once(mailbox: Mailbox) -> None:
    link = mailbox.link()
    link.look(0.0)
    hand(link, 1, 2)
    hand(link, 3)
    assert [order["o"] for order in mailbox.orders(1)] == ["env", "run", "run"]
    assert mailbox.orders(1)[1]["m"] == [{"j": 1, "a": 1}, {"j": 2, "a": 1}]


def test_a_new_life_waits_until_it_sees_what_the_pilot_took(mailbox: Mailbox) -> None:
    first = mailbox.link()
    first.look(0.0)
    hand(first, 1)
    text = (mailbox.folder / "orders.1").read_bytes()
    # The file server shows the newest order late.
    (mailbox.folder / "orders.1").write_bytes(b"")
    second = mailbox.link()
    mailbox.record(r="gen", g=2, was=1, at=len(text))
    mailbox.record(r="got", m=[[1, 1]])
    second.look(0.0)
    answers = [second.state.has_answered, second.has_damage]
    (mailbox.folder / "orders.1").write_bytes(text)
    second.look(1.0)
    answers += [second.state.has_answered, second.has_damage]
    assert answers == [False, True, True, False]
    assert second.state.attempts[1, 1].state is HandedState.GOT


def test_a_pilot_that_is_gone_gets_no_orders(mailbox: Mailbox) -> None:
    first = mailbox.link()
    first.look(0.0)
    hand(first, 1)
    second = mailbox.link(is_gone=True)
    second.look(0.0)
    assert not (mailbox.folder / "orders.2").exists()
    assert not second.takes_work
    second.state.finish("gone")
    assert [attempt for attempt, _ in second.state.returned] == [(1, 1)]


def test_silence_counts_only_between_looks_with_an_answer(mailbox: Mailbox) -> None:
    link = mailbox.link()
    link.look(0.0)
    link.look(10.0)
    assert link.quiet_s == 10.0
    (mailbox.folder / "records").rename(mailbox.folder / "hidden")
    with pytest.raises(FileNotFoundError):
        link.look(100.0)
    (mailbox.folder / "hidden").rename(mailbox.folder / "records")
    link.look(200.0)
    assert link.quiet_s == 10.0
    link.look(205.0)
    assert link.quiet_s == 15.0
    mailbox.record(r="beat", k=1, at=0, run=0, wait=0)
    link.look(210.0)
    assert link.quiet_s == 0.0


def test_waiting_work_stays_where_it_is_until_the_order_to_end_is_on_disk(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = mailbox.link()
    link.look(0.0)
    hand(link, 1)

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(files, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            link.move_waiting()
    assert list(link.state.attempts) == [(1, 1)]
    link.move_waiting()
    assert link.state.attempts == {}
    assert [order["o"] for order in mailbox.orders(1)] == ["env", "run", "end"]


def test_damaged_records_are_not_read_past(mailbox: Mailbox) -> None:
    link = mailbox.link()
    link.look(0.0)
    hand(link, 1)
    path = mailbox.folder / "records"
    end = path.stat().st_size
    mailbox.record(r="beat", k=1, at=0, run=0, wait=0)
    mailbox.record(r="got", m=[[1, 1]])
    content = bytearray(path.read_bytes())
    content[end + 5] ^= 1
    path.write_bytes(bytes(content))
    link.look(1.0)
    assert link.has_damage
    assert link.state.beat is None


def test_a_pilot_that_gives_back_unasked_rests(mailbox: Mailbox) -> None:
    link = mailbox.link()
    link.look(0.0)
    hand(link, 1, 2, 3)
    link.kill([(1, 1)], 15)
    mailbox.record(r="never", m=[[1, 1]])
    link.look(1.0)
    assert link.rest_until < 1.0
    mailbox.record(r="never", m=[[2, 1]])
    link.look(2.0)
    assert link.rest_until == 7.0
    link.ask_back(1)
    mailbox.record(r="never", m=[[3, 1]])
    link.look(3.0)
    assert link.rest_until == 7.0


def test_a_sign_of_life_is_acknowledged_once(mailbox: Mailbox) -> None:
    link = mailbox.link()
    mailbox.record(r="beat", k=1, at=0, run=0, wait=0)
    link.look(0.0)
    link.acknowledge(0.0, 120.0)
    link.acknowledge(60.0, 120.0)
    mailbox.record(r="beat", k=2, at=0, run=0, wait=0)
    link.look(61.0)
    link.acknowledge(61.0, 120.0)
    link.flush()
    assert [order["k"] for order in mailbox.orders(1)] == [1, 2]
