"""Events of a run without a journal come from its workload manager; followers never repeat or lose one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.contract.capabilities import LogLocator
from longshore.contract.service import Mark, RunPaths, StaleMarkError, Unreachable
from longshore.errors import RunNotFoundError, RunUnreadableError, UsageError
from longshore.model.event import FORMAT, PLAIN_FORMAT, Event, Life, Seal, Started
from longshore.model.json_lines import encode_line
from longshore.model.submission import Submission
from longshore.reports.logs import LogFollower, LogUpdate, find_logs
from longshore.runstate import events as poll
from longshore.runstate.events import EventFollower, RunEvents
from longshore.runstate.open_run import OpenRun
from longshore.services.local.service import LocalService

ALL: list[Event] = [Life(v=FORMAT, life=1, t=NOW, host="ap", pid=7, boot="", by="submit"), *course()]
SILENCE = Unreachable(why="timed out")


class Places(LogLocator):
    """Logs that have one name per attempt."""

    def __init__(self, begun: int) -> None:
        self._begun = begun

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        return f"{label}.{index}.{name}.{attempt}"

    def attempts(self, index: int) -> int:
        return self._begun


class Manager(LocalService):
    """A manager that tells a little more each time it is asked.

    Parameters
    ----------
    steps
        What is done before each question is answered: how many events there are, or what it says instead.
    """

    def __init__(self, steps: list[int | Unreachable | type[StaleMarkError]]) -> None:
        self.steps = steps
        self.begun = 0

    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        step = self.steps.pop(0)
        if isinstance(step, Unreachable):
            return step
        if not isinstance(step, int):
            raise step
        return iter(ALL[int(mark or 0) : step]), str(step)

    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        if not self.steps:
            return False
        return SILENCE if isinstance(self.steps[0], Unreachable) else True

    def log_locator(self, run: RunPaths) -> LogLocator:
        return Places(self.begun)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "POLL_S", 0.0)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[Manager], OpenRun]:
    """A run whose manager is asked what happened."""
    written = WrittenRun(tmp_path / "run")
    said = Submission(id="7.0", by="submit", at=NOW, user="ada", host="ap")
    card = msgspec.structs.replace(written.opened.card, submissions=(said,))

    def of(manager: Manager) -> OpenRun:
        found = OpenRun(run=written.run, card=card)
        found.__dict__["service"] = manager
        return found

    return of


@pytest.mark.parametrize(
    "steps",
    [
        [len(ALL)],
        [0, 1, 5, 5, len(ALL)],
        [3, SILENCE, 9, SILENCE, SILENCE, len(ALL)],
        [3, 6, StaleMarkError, 8, len(ALL)],
        [3, StaleMarkError, SILENCE, StaleMarkError, 2, 8, len(ALL)],
    ],
)
def test_every_event_is_yielded_once_and_in_order(
    opened: Callable[[Manager], OpenRun], steps: list[int | Unreachable | type[StaleMarkError]]
) -> None:
    following = RunEvents(opened(Manager(steps)))
    found = list(following.follow())
    assert [event for _, event in found] == ALL
    assert [mark for mark, _ in found] == [f"1.{number}" for number in range(len(ALL))]
    assert not following.is_engine_gone


def test_since_a_mark_only_later_events_are_yielded(opened: Callable[[Manager], OpenRun]) -> None:
    found = list(RunEvents(opened(Manager([4, StaleMarkError, 6, len(ALL)])), since="1.4").follow())
    assert [event for _, event in found] == ALL[5:]


def test_following_ends_when_the_run_has_no_engine(opened: Callable[[Manager], OpenRun]) -> None:
    class Gone(Manager):
        def is_alive(self, run: RunPaths) -> bool:
            return len(self.steps) > 1

    following = RunEvents(opened(Gone([3, 6])))
    assert [event for _, event in following.follow()] == ALL[:6]
    assert following.is_engine_gone
    follower = LogFollower(opened(Gone([3, 6])), "j1")
    assert list(follower.updates()) == []
    assert follower.is_engine_gone


def test_a_run_that_was_never_submitted_is_not_followed(opened: Callable[[Manager], OpenRun]) -> None:
    never = opened(Manager([]))
    never = OpenRun(run=never.run, card=msgspec.structs.replace(never.card, submissions=()))
    never.__dict__["service"] = Manager([])
    with pytest.raises(UsageError, match="never submitted"):
        LogFollower(never, "j1")


def life(number: int, seals: Seal | None = None) -> Life:
    return Life(v=PLAIN_FORMAT, life=number, t=1.0, host="h", pid=1, boot="b", by="submit", seals=seals)


def started(number: int) -> Started:
    return Started(n=number, t=2.0, j=0, a=number)


def test_valid_events_of_a_journal_are_yielded_once(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "run")

    def write(number: int, text: bytes) -> None:
        with (written.run.journal / f"{number:04}.jsonl").open("ab") as file:
            file.write(text)

    first = encode_line(life(1)) + encode_line(started(1))
    write(1, first + b'{"e":"started","n":2,')
    follower = EventFollower(written.opened)
    assert list(follower.read()) == [life(1), started(1)]
    assert list(follower.read()) == [], "the last line is not whole yet"
    second = life(2, Seal(life=1, bytes=len(first)))
    write(2, encode_line(second))
    write(1, b'"t":2.0,"j":0,"a":2}\n')
    assert list(follower.read()) == [second], "what was written behind the seal is void"
    assert [follower.has_restarted, *follower.read()] == [False]
    write(2, encode_line(started(1)))
    assert list(follower.read()) == [started(1)]
    write(3, encode_line(life(3, Seal(life=2, bytes=len(encode_line(second))))))
    assert list(follower.read()) == [life(1), started(1), second, life(3, Seal(life=2, bytes=len(encode_line(second))))]
    assert follower.has_restarted, "some of what was read is void"
    write(3, b"nonsense\n")
    with pytest.raises(RunUnreadableError, match="is no event"):
        list(follower.read())


def test_following_a_removed_run_is_an_error(opened: Callable[[Manager], OpenRun]) -> None:
    run = opened(Manager([1, 2]))
    follower = EventFollower(run)
    assert list(follower.read()) == ALL[:1]
    run.run.root.rename(run.run.root.with_name("elsewhere"))
    with pytest.raises(RunNotFoundError, match="it was moved or removed while it was followed"):
        follower.read()


@pytest.mark.parametrize("stale", [False, True])
def test_logs_are_followed_attempt_after_attempt(opened: Callable[[Manager], OpenRun], stale: bool) -> None:
    """Job 1 fails and is tried again: its second attempt is known before it has a log."""

    class Writing(Manager):
        def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
            answer = super().events(run, mark)
            if isinstance(answer, Unreachable):
                return answer
            reached = int(answer[1])
            self.begun = 2 if reached >= 10 else 1 if reached >= 6 else 0
            for number, since in ((1, 7), (2, 16)):
                if reached >= since:
                    (run.root / f"a.1.j1.{number}").write_text(f"attempt {number}\n")
            return answer

    steps: list[int | Unreachable | type[StaleMarkError]] = [0, 6, 7, SILENCE, 10, 12, 16, len(ALL)]
    if stale:
        steps[5:5] = [StaleMarkError, 10]
    follower = LogFollower(opened(Writing(steps)), "j1")
    assert list(follower.updates()) == [
        LogUpdate(1, None),
        LogUpdate(1, b"attempt 1\n"),
        LogUpdate(2, None),
        LogUpdate(2, b"attempt 2\n"),
    ]
    assert not follower.is_engine_gone


def test_a_waiting_attempt_has_no_log(opened: Callable[[Manager], OpenRun]) -> None:
    # Whether its result was kept from another run is looked up in the events.
    manager = Manager([0, 0])
    manager.begun = 1
    with pytest.raises(RunNotFoundError, match=r"no attempt of it has begun, or 'a\.1\.j1\.1' is gone"):
        find_logs(opened(manager), job="j1")
    (opened(manager).run.root / "a.1.j1.1").touch()
    assert [log.attempt for log in find_logs(opened(manager), job="j1").logs] == [1]
    manager.begun = 2
    assert [log.attempt for log in find_logs(opened(manager), job="j1").logs] == [1]
    assert [log.attempt for log in find_logs(opened(manager), labels=["a"]).logs] == [1]
    with pytest.raises(RunNotFoundError, match="has no log of an attempt 2"):
        find_logs(opened(manager), job="j1", attempt=2)


def test_a_followed_run_finds_the_logs_that_new_events_name(opened: Callable[[Manager], OpenRun]) -> None:
    manager = Manager([3, 5])
    run = opened(manager)
    begun = []
    for number in (1, 2):
        run.events()
        manager.begun = number
        assert run.log_locator
        begun.append(run.log_locator.attempts(0))
    assert begun == [1, 2]
