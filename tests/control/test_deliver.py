"""Delivery: commands and webhooks that fail, hang or answer slowly; no error has an address, and each ends in time."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import gettempdir
from typing import IO

import pytest

from longshore.control.notices import DeliveryError, RunningCommands, trial_notice
from longshore.control.notices import deliver as deliver_by
from longshore.model.notice import Notice, NoticeEvent, NoticeRule, SecretReference

NOTICE = trial_notice("mosaic")
SECRET = "s3cret-path"  # noqa: S105 - a part of an address


class Webhook:
    """A server on loopback, and what it got; `answer` handles each request."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, int], None]) -> None:
        self.bodies: list[bytes] = []
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                webhook.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                answer(self, len(webhook.bodies))

            def log_message(self, *_args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/{SECRET}"


def deliver(notice: Notice, given_rule: NoticeRule, folder: Path) -> None:
    deliver_by(notice, given_rule, folder, RunningCommands())


def status(number: int) -> Callable[[BaseHTTPRequestHandler, int], None]:
    def answer(handler: BaseHTTPRequestHandler, _count: int) -> None:
        handler.send_response(number)
        handler.end_headers()

    return answer


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[BaseHTTPRequestHandler, int], None]], Webhook]]:
    made: list[Webhook] = []

    def start(answer: Callable[[BaseHTTPRequestHandler, int], None]) -> Webhook:
        made.append(Webhook(answer))
        return made[-1]

    yield start
    for webhook in made:
        webhook.server.shutdown()
        webhook.server.server_close()


Serve = Callable[[Callable[[BaseHTTPRequestHandler, int], None]], Webhook]


def rule(*, command: str = "", file: Path | None = None, timeout_s: float = 20.0, slack: bool = False) -> NoticeRule:
    return NoticeRule(
        name="chat",
        events=(NoticeEvent.END,),
        command=command,
        webhook=SecretReference(file=str(file)) if file else None,
        format="slack" if slack else "json",
        timeout_s=timeout_s,
    )


def wait_until_dead(pid: int) -> None:
    stat = Path("/proc") / str(pid) / "stat"
    deadline = time.monotonic() + 60
    with suppress(FileNotFoundError, ProcessLookupError):
        while stat.read_text("utf-8").rpartition(") ")[2][0] != "Z":
            assert time.monotonic() < deadline, "the process lives on"
            time.sleep(0.02)


def address_file(folder: Path, address: str) -> Path:
    file = folder / "address"
    file.write_text(f"{address}\n", "utf-8")
    return file


def refusal(folder: Path, given_rule: NoticeRule) -> str:
    with pytest.raises(DeliveryError) as caught:
        deliver(NOTICE, given_rule, folder)
    assert SECRET not in str(caught.value), "an address is a secret"
    return str(caught.value)


def test_a_webhook_gets_the_whole_notice(tmp_path: Path, serve: Serve) -> None:
    webhook = serve(status(200))
    deliver(NOTICE, rule(file=address_file(tmp_path, webhook.address)), tmp_path)
    (body,) = webhook.bodies
    assert json.loads(body)["subject"] == NOTICE.subject


def test_slack_gets_a_text(tmp_path: Path, serve: Serve) -> None:
    webhook = serve(status(204))
    deliver(NOTICE, rule(file=address_file(tmp_path, webhook.address), slack=True), tmp_path)
    assert json.loads(webhook.bodies[0]) == {"text": f"{NOTICE.subject}\n{NOTICE.text}"}


def test_a_server_with_an_error_of_its_own_is_called_again(tmp_path: Path, serve: Serve) -> None:
    webhook = serve(lambda handler, count: status(500 if count == 1 else 200)(handler, count))
    deliver(NOTICE, rule(file=address_file(tmp_path, webhook.address)), tmp_path)
    assert len(webhook.bodies) == 2


def test_a_refusal_is_final(tmp_path: Path, serve: Serve) -> None:
    webhook = serve(status(404))
    assert refusal(tmp_path, rule(file=address_file(tmp_path, webhook.address))) == "the server answered 404 Not Found"
    assert len(webhook.bodies) == 1


@pytest.mark.parametrize("number", [301, 302, 307])
def test_a_redirect_loses_the_notice_and_is_an_error(tmp_path: Path, serve: Serve, number: int) -> None:
    other = serve(status(200))

    def answer(handler: BaseHTTPRequestHandler, _count: int) -> None:
        handler.send_response(number)
        handler.send_header("Location", other.address)
        handler.end_headers()

    webhook = serve(answer)
    said = refusal(tmp_path, rule(file=address_file(tmp_path, webhook.address)))
    assert said.startswith(f"the server answered {number} ")
    assert said.endswith(": it sends the notice to another address")
    assert other.bodies == []


def test_a_server_that_closes_the_connection(tmp_path: Path, serve: Serve) -> None:
    webhook = serve(lambda handler, _count: handler.connection.close())
    said = refusal(tmp_path, rule(file=address_file(tmp_path, webhook.address), timeout_s=3.0))
    assert said.startswith(("the call failed: ", "the server cannot be reached: "))
    assert "None" not in said


def test_a_server_that_hangs_is_left(tmp_path: Path, serve: Serve) -> None:
    free = threading.Event()
    webhook = serve(lambda _handler, _count: (free.wait(60), None)[1])
    began = time.monotonic()
    why = refusal(tmp_path, rule(file=address_file(tmp_path, webhook.address), timeout_s=0.5))
    free.set()
    assert why in {"no answer within 0.5 s", "the server did not answer in time"}
    assert time.monotonic() - began < 30


def test_a_server_that_is_not_there(tmp_path: Path, serve: Serve) -> None:
    webhook = serve(status(200))
    webhook.server.shutdown()
    webhook.server.server_close()
    file = address_file(tmp_path, webhook.address)
    assert "refused" in refusal(tmp_path, rule(file=file, timeout_s=3.0)).lower()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (f"file:///etc/{SECRET}", "the address does not begin with https:// or http://"),
        (f"http://[{SECRET}", "the call failed: ValueError"),
        (f"http://127.0.0.1:99999/{SECRET}", "the server cannot be reached: "),
        ("", "is empty"),
    ],
)
def test_an_address_that_is_none(tmp_path: Path, address: str, words: str) -> None:
    assert words in refusal(tmp_path, rule(file=address_file(tmp_path, address), timeout_s=3.0))


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(tmp_path, rule(file=tmp_path / "none"))


def test_a_variable_that_is_not_set(tmp_path: Path) -> None:
    given_rule = NoticeRule(name="chat", events=(NoticeEvent.END,), webhook=SecretReference(env="NO_SUCH_VARIABLE"))
    assert refusal(tmp_path, given_rule) == "the variable 'NO_SUCH_VARIABLE' is not set where notices are sent"


def test_a_variable_with_the_address(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    webhook = serve(status(200))
    monkeypatch.setenv("CHAT_ADDRESS", webhook.address)
    deliver(NOTICE, NoticeRule(name="chat", events=(), webhook=SecretReference(env="CHAT_ADDRESS")), tmp_path)
    assert len(webhook.bodies) == 1


def test_a_user_and_a_password_in_an_address_become_a_header(tmp_path: Path, serve: Serve) -> None:
    seen: list[str] = []

    def answer(handler: BaseHTTPRequestHandler, _count: int) -> None:
        seen.extend((handler.headers["Authorization"], handler.path))
        handler.send_response(200)
        handler.end_headers()

    address = serve(answer).address.replace("http://", "http://ada:p%40ss@")
    deliver(NOTICE, rule(file=address_file(tmp_path, address)), tmp_path)
    assert seen == [f"Basic {b64encode(b'ada:p@ss').decode()}", f"/{SECRET}"]


def test_a_command_gets_the_text_and_variables(tmp_path: Path) -> None:
    deliver(NOTICE, rule(command='cat > text; printf "%s" "$LONGSHORE_EVENT $LONGSHORE_RUN_NAME" > names'), tmp_path)
    assert (tmp_path / "text").read_text("utf-8") == NOTICE.text
    assert (tmp_path / "names").read_text("utf-8") == "end mosaic"


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    said = refusal(tmp_path, rule(command="echo one; echo no mail program >&2; exit 7"))
    assert said == "the command failed with exit code 7: no mail program"


def test_without_room_for_temporary_files_a_command_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> IO[bytes]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("longshore.control.notices.TemporaryFile", refuse)
    said = refusal(tmp_path, rule(command="true"))
    assert said == f"the command cannot be started: No space left on device in '{gettempdir()}'"


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    # Long enough for a shell on a busy machine.
    why = refusal(tmp_path, rule(command="sleep 60 & echo $! > child; wait", timeout_s=3.0))
    assert why == "the command had not ended after 3 s, and was killed"
    wait_until_dead(int((tmp_path / "child").read_text("utf-8")))


def test_no_command_starts_once_all_were_killed(tmp_path: Path) -> None:
    commands = RunningCommands()
    commands.kill()
    with pytest.raises(DeliveryError, match="the notifier ends"):
        deliver_by(NOTICE, rule(command="touch began"), tmp_path, commands)
    assert not (tmp_path / "began").exists()


def test_the_status_of_a_command_that_was_killed_is_its_signal(tmp_path: Path) -> None:
    assert refusal(tmp_path, rule(command="kill -9 $$")) == "the command failed with signal 9"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("printf '%01000d\\n' 7 >&2; exit 3", f"{'0' * 197}..."),
        ("yes x | head -c 1000000 | tr -d '\\n' >&2; echo end >&2; exit 3", f"...{'x' * 194}end"),
        ("yes | head -c 20000; echo short; exit 3", "short"),
    ],
)
def test_a_long_line_of_a_command_is_cut(tmp_path: Path, command: str, said: str) -> None:
    assert refusal(tmp_path, rule(command=command)) == f"the command failed with exit code 3: {said}"


def test_a_command_that_is_not_found_says_where_it_starts(tmp_path: Path) -> None:
    assert refusal(tmp_path, rule(command="./no-hook.sh")).endswith(f"(it starts in '{tmp_path}')")
