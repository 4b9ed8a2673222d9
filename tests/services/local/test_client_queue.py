"""Jobs that are sent ahead, kept back, or not started at all."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from tests.services.local.processes import Inbox, keepers, kill_keeper, member, write_records

from longshore.contract.service import RunPaths
from longshore.engine.policy.retry import BadEnds, RetryRules, decide_retry
from longshore.model.event import Ended, Failed, Started
from longshore.services.local.keeper_client import LocalClient


def test_a_row_sent_ahead_starts_in_order_within_its_slots(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, job, "sleep", "0.02") for job in range(6)], lane="0", slots=2)
    for job in range(6):
        assert isinstance(inbox.end(job), Ended)
    records = [json.loads(line) for line in (run.keeper / "0001.1.jsonl").read_text("utf-8").splitlines()]
    running = most = 0
    for record in records:
        running += {"start": 1, "end": -1}.get(record["r"], 0)
        most = max(most, running)
    assert most == 2
    assert [record["m"] for record in records if record["r"] == "got"] == [[[job, 1]] for job in range(6)]


def test_who_waits_too_long_comes_back(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, job, "sleep", "60") for job in range(3)], lane="0", slots=1)
    inbox.start(0)
    inbox.until(lambda: len(inbox.never) == 2)
    assert inbox.never == [(1, 1), (2, 1)]
    assert inbox.client.end([(0, 1), (1, 1)], grace_s=5.0) == 1


def test_who_waits_and_is_ended_never_starts(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, job, "sleep", "60") for job in range(2)], lane="0", slots=1)
    assert inbox.client.end([(0, 1), (1, 1)], grace_s=5.0) == 2
    assert isinstance(inbox.end(0), Ended)
    inbox.until(lambda: inbox.never == [(1, 1)])
    assert not inbox.ends(1)


def test_who_waits_when_the_keeper_dies_was_never_started(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, job, "sleep", "60") for job in range(3)], lane="0", slots=1)
    inbox.start(0)
    kill_keeper(run)
    inbox.until(lambda: sorted(inbox.never) == [(1, 1), (2, 1)])
    # What the dead keeper started takes the slot: the next keeper must not use it, too.
    inbox.client.start("u", [member(run, 3, "true")], lane="0", slots=1)
    inbox.until(lambda: (3, 1) in inbox.never)
    assert inbox.client.end([(0, 1)], grace_s=5.0) == 1
    assert isinstance(inbox.end(0), Ended)
    inbox.client.start("v", [member(run, 4, "true")], lane="0", slots=1)
    assert isinstance(inbox.end(4), Ended)


def test_who_waits_when_the_engine_dies_is_not_taken(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, job, "sleep", "60") for job in range(3)], lane="0", slots=1)
    inbox.start(0)
    inbox.client.close()
    later = Inbox(LocalClient(run, 2))
    assert later.client.find(["t"]) == {"t": frozenset({(0, 1)})}
    assert later.client.end([(0, 1)], grace_s=5.0) == 1
    assert isinstance(later.end(0), Ended)


def test_an_environment_is_sent_once_and_to_every_keeper(run: RunPaths, inbox: Inbox) -> None:
    shared = {"COLOUR": "green"}
    number = inbox.client.environment(shared)
    assert inbox.client.environment(shared) == number
    for job in range(2):
        order = member(run, job, "/bin/sh", "-c", "echo $COLOUR")
        order["e"] = number
        inbox.client.start(f"t{job}", [order])
        assert isinstance(inbox.end(job), Ended)
        assert (run.root / f"{job}.log").read_text("utf-8") == "green\n"
        if job == 0:
            kill_keeper(run)


def test_what_the_disk_keeps_from_starting_costs_no_attempt_and_is_tried_later(run: RunPaths, inbox: Inbox) -> None:
    blocked = run.root / "logs" / "a"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    path = write_records(
        run,
        {"r": "got", "b": "t", "m": [[1, 1], [2, 1]]},
        {
            "r": "end",
            "j": 1,
            "a": 1,
            "t": 1.0,
            "err": "cannot start 'x': No space left on device",
            "no": 28,
            "own": True,
        },
        {"r": "end", "j": 2, "a": 1, "t": 1.0, "err": "cannot start 'x': No space left on device", "no": 28},
        {"r": "closed"},
    )
    client = LocalClient(run, 1)
    events, never = client.poll()
    assert [(event.j, getattr(event, "exit", None)) for event in events] == [(2, 126)], "the job's own fault"
    assert never == []
    assert client.throttled_batches == {"t"}
    assert "No space left" in client.throttle_reason
    assert client.find(["t"]) == {"t": frozenset({(2, 1)})}
    assert path.exists()


@pytest.mark.parametrize("words", [("echo", "a\0b"), ("echo", "x" * 3_000_000)], ids=["NUL", "too long"])
def test_what_can_never_start_is_not_tried_again(run: RunPaths, inbox: Inbox, words: tuple[str, ...]) -> None:
    inbox.client.start("t", [member(run, 1, *words)])
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.hopeless
    verdict = decide_retry(end, bad_ends=BadEnds(tries=1), rules=RetryRules(retries=5))
    assert isinstance(verdict, Failed)
    assert "a retry cannot succeed" in verdict.why


def test_what_never_started_is_told_once(run: RunPaths, inbox: Inbox) -> None:
    """Inbox again, it would take back an attempt of the same number that was started since."""
    inbox.client.start("t0", [member(run, 1, "true")])
    inbox.end(1)
    keeper = keepers(run)[0]
    os.kill(keeper, signal.SIGSTOP)
    inbox.client.start("t", [member(run, 2, "true")])
    os.kill(keeper, signal.SIGKILL)
    never: list[tuple[int, int]] = []
    deadline = time.monotonic() + 120
    while not never:
        assert time.monotonic() < deadline
        never += inbox.client.poll()[1]
    for _ in range(3):
        assert inbox.client.poll()[1] == []
    assert never == [(2, 1)]


def test_a_keeper_starts_nothing_once_another_engine_has_begun(run: RunPaths, inbox: Inbox) -> None:
    """Its own engine was suspended between its last look and the order."""
    inbox.client.start("t0", [member(run, 1, "true")])
    inbox.end(1)
    run.journal.mkdir(exist_ok=True)
    (run.journal / "0002.jsonl").touch()
    inbox.client.start("t", [member(run, 2, "sh", "-c", "echo started")])
    newer = LocalClient(run, 2)
    inbox.client.close()
    assert newer.find(["t0", "t"]) == {"t0": frozenset({(1, 1)})}
    assert not [event for event in newer.poll()[0] if event.j == 2]
    newer.close()


def test_a_keeper_that_began_late_is_not_overlooked(run: RunPaths, inbox: Inbox) -> None:
    """The engine of before was about to start it when the newer one looked around."""
    newer = LocalClient(run, 2)
    inbox.client.start("t", [member(run, 1, "true")])
    inbox.end(1)
    inbox.client.close()
    assert newer.find(["t"]) == {"t": frozenset({(1, 1)})}
    assert [type(event) for event in newer.poll()[0]] == [Started, Ended]
    newer.close()
