"""Notices side by side: a hook that hangs holds back no other one, and none outlives what started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.waiting import eventually

from longshore.control.notices import Deliveries, Delivery, trial_notice
from longshore.model.notice import NoticeEvent, NoticeRule

NOTICE = trial_notice("mosaic")
HANGS = "echo $$ > pid; sleep 1000 & wait"


def delivery(folder: Path, name: str, command: str, *, timeout_s: float = 60.0) -> Delivery:
    rule = NoticeRule(name=name, events=(NoticeEvent.END,), command=command, timeout_s=timeout_s)
    return Delivery(rule=rule, notice=NOTICE, folder=folder)


def is_dead(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(") ")[2][0] == "Z"
    return True


def written_pid(folder: Path) -> int:
    path = folder / "pid"
    return int(eventually(lambda: path.exists() and path.read_text("utf-8").strip()))


def test_a_command_that_hangs_holds_back_no_other_and_dies_with_the_context(tmp_path: Path) -> None:
    with Deliveries() as deliveries:
        deliveries.add(delivery(tmp_path, "a", HANGS, timeout_s=600.0))
        deliveries.add(delivery(tmp_path, "b", "true"))
        deliveries.add(delivery(tmp_path, "c", "exit 3"))
        ended = [*deliveries.take_ended(), *deliveries.take_ended(0.0)]
        while deliveries.open_number > 1:
            ended += deliveries.take_ended()
        pid = written_pid(tmp_path)
    results = {each.rule.name: each.why for each in ended}
    assert results == {"b": "", "c": "the command failed with exit code 3"}
    eventually(lambda: is_dead(pid))


def test_the_notices_of_one_rule_keep_their_order(tmp_path: Path) -> None:
    with Deliveries() as deliveries:
        deliveries.add(delivery(tmp_path, "a", "sleep 0.2; echo first >> lines"))
        deliveries.add(delivery(tmp_path, "a", "echo second >> lines"))
        while deliveries.open_number:
            assert [each.why for each in deliveries.take_ended()] in ([""], ["", ""])
    assert (tmp_path / "lines").read_text("utf-8") == "first\nsecond\n"


def test_results_that_came_together_are_in_the_order_of_the_rules(tmp_path: Path) -> None:
    with Deliveries() as deliveries:
        for name in ("c", "a", "b"):
            deliveries.add(delivery(tmp_path, name, f"touch {name}"))
        eventually(lambda: deliveries._ended.qsize() == 3)
        assert [each.rule.name for each in deliveries.take_ended()] == ["a", "b", "c"]
    assert deliveries.take_ended() == []


def test_without_a_result_in_time_there_is_none(tmp_path: Path) -> None:
    with Deliveries() as deliveries:
        deliveries.add(delivery(tmp_path, "a", HANGS))
        assert deliveries.take_ended(0.01) == []
        assert deliveries.open_number == 1


def test_an_unexpected_error_is_a_result_without_its_text(tmp_path: Path) -> None:
    with Deliveries() as deliveries:
        deliveries.add(delivery(tmp_path, "a", "true", timeout_s=float("nan")))
        deliveries.add(delivery(tmp_path, "a", "true"))
        results: list[str] = []
        while deliveries.open_number:
            results += [each.why for each in deliveries.take_ended()]
    assert results == ["an error of Longshore itself: ValueError", ""]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_test_of_rules_that_is_ended_leaves_no_command(tmp_path: Path, number: signal.Signals) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(f"notify: {{hang: {{command: 'cd {tmp_path}; {HANGS}', timeout: 1}}}}\n", "utf-8")
    # A job that a shell runs in the background ignores SIGINT, and so do its children.
    program = (
        "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"sys.argv[1:] = ['notify', '--test', {str(config)!r}]; runpy.run_module('longshore', run_name='__main__')"
    )
    # A command that is killed cannot kill its own, and a program in front of these does, some seconds later.
    if number is not signal.SIGKILL:
        config.write_text(config.read_text("utf-8").replace("timeout: 1", "timeout: 10m"), "utf-8")
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        pid = written_pid(tmp_path)
        os.kill(process.pid, number)
        try:
            assert process.wait(50) in {-number, 128 + number}
        finally:
            process.kill()
    eventually(lambda: is_dead(pid))
