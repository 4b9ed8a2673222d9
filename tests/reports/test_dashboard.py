"""The dashboard as a server: what it answers, what it refuses, and pages that follow their runs."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from msgspec.structs import replace
from tests.waiting import eventually
from tests.written_run import NOW, WrittenRun, course

from longshore.errors import UsageError
from longshore.model.event import Finished
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.reports.dashboard import DashboardPages, DashboardServer, MadePage, open_dashboard
from longshore.rundir.registry import RegistryEntry, journal_stamp, write_entry
from longshore.rundir.run_directory import write_card

SIX = {JobState.SUCCEEDED: 6}


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """A browser of a dashboard whose pages are never older than the last step of a clock."""

    def __init__(self, server: DashboardServer, clock: Clock) -> None:
        self.server = server
        self.clock = clock

    def ask(
        self, target: str = "", *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """Ask for a page; `target` begins behind the token, or at the root with ``/``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_address[1], timeout=60)
        path = target if target.startswith("/") else f"{urlsplit(self.server.address).path}{target}"
        connection.request(method, path, headers=dict(headers or {}))
        return connection.getresponse()

    def read(self, target: str = "") -> str:
        self.clock.now += 1e6
        answer = self.ask(target)
        assert answer.status == 200
        return answer.read().decode()


@pytest.fixture
def client() -> Iterator[Client]:
    with open_dashboard(0) as server:
        clock = Clock()
        server.pages = DashboardPages(clock)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield Client(server, clock)
        finally:
            server.shutdown()
            thread.join()


def register(run: WrittenRun) -> None:
    card = run.opened.card
    write_entry(RegistryEntry.of(card, str(run.run.root), is_found=False))


def test_it_listens_on_loopback_alone(client: Client) -> None:
    assert client.server.server_address[0] == "127.0.0.1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", client.server.address)


def test_each_dashboard_has_a_token_of_its_own(client: Client) -> None:
    with open_dashboard(0) as other:
        assert other.token != client.server.token


def test_what_is_not_a_read_of_its_own_pages_is_refused(client: Client) -> None:
    assert client.ask("/wrong/").status == 403
    assert client.ask(headers={"Host": "evil.example"}).status == 403
    posted = client.ask(method="POST")
    assert (posted.status, posted.getheader("Allow")) == (405, "GET, HEAD")
    assert client.ask(method="BREW").status == 405
    for target in ("run/..%2F..%2Fetc%2Fpasswd", "run/%2Fetc%2Fpasswd", "../../etc/passwd", "run/@last", "run/k7f"):
        answer = client.ask(target)
        assert answer.status in {403, 404}
        assert b"root:" not in answer.read()


def test_answers_keep_a_browser_from_running_or_sending_anything_else(client: Client) -> None:
    answer = client.ask()
    policy = answer.getheader("Content-Security-Policy") or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Cache-Control") == "no-store"
    assert answer.getheader("Access-Control-Allow-Origin") is None


def test_head_has_no_body_and_an_unchanged_page_is_not_sent_again(client: Client) -> None:
    page = client.ask()
    head = client.ask(method="HEAD")
    assert head.read() == b""
    assert head.getheader("Content-Length") == page.getheader("Content-Length")
    tag = page.getheader("ETag") or ""
    again = client.ask(headers={"If-None-Match": tag})
    assert (again.status, again.read()) == (304, b"")


def test_a_run_appears_and_ends_while_the_dashboard_is_open(client: Client, tmp_path: Path) -> None:
    assert "No run is registered" in client.read()
    run = WrittenRun(tmp_path / "run")
    run.begin()
    events = course()
    for event in events[:-1]:
        run.write(event)
        run.know(event)
    register(run)
    assert "k7f3aa" in client.read()
    assert client.read("run/k7f3aa").count("<h1>w</h1>") == 1
    assert isinstance(events[-1], Finished)
    run.write(events[-1])
    run.know(events[-1])
    run.snapshot()
    assert '<span class="badge b-FAILED">FAILED</span>' in client.read("run/k7f3aa")
    assert '<span class="badge b-FAILED">FAILED</span>' in client.read()
    run.run.root.rename(tmp_path / "moved")
    client.clock.now += 1e6
    assert client.ask("run/k7f3aa").status == 404
    assert "removed or moved: k7f3aa" in client.read()


def test_a_page_is_not_made_anew_for_every_look(client: Client, tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    before = client.read()
    register(run)
    assert client.ask().read().decode() == before
    assert client.read() != before


@pytest.mark.parametrize("number", [1, 10])
def test_making_pages_takes_a_tenth_of_a_processor_however_many_are_open(number: int) -> None:
    clock, made = Clock(), []

    def make(run: str) -> str:
        clock.now += 1.0
        made.append(run)
        return run

    pages = DashboardPages(clock, make)
    while clock.now < 2000.0:
        for run in range(number):
            pages.page(f"r{run}")
        clock.now += 2.0
    assert len(made) / clock.now < 0.12
    assert min(made.count(f"r{run}") for run in range(number)) > 0.6 * len(made) / number, "no page starves"


def test_a_run_opens_by_the_id_that_its_workload_manager_assigned(client: Client, tmp_path: Path) -> None:
    for name, run_id, created_at in (("old", "a2m4qq", NOW - 9.0), ("new", "k7f3aa", NOW)):
        run = WrittenRun(tmp_path / name)
        run.begin()
        submission = Submission(id="12.0", by="submit", at=NOW, user="u", host="h", global_id="s@h#12.0#1")
        card = replace(run.opened.card, id=run_id, name=name, created_at=created_at, submissions=(submission,))
        write_card(run.run, card)
        write_entry(RegistryEntry.of(card, str(run.run.root)))
    assert "<h1>new</h1>" in client.read("run/12.0")
    assert "<h1>new</h1>" in client.read(f"run/{quote('s@h#12.0#1')}")
    assert "<h1>old</h1>" in client.read("run/a2m4qq")
    assert client.ask("run/12").status == 404


@pytest.mark.parametrize("content", [b"", b"[", b'{"v":1}\n', b"\xff\n"])
def test_a_run_that_cannot_be_read_is_an_error_of_its_page_alone(
    client: Client, tmp_path: Path, content: bytes
) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    register(run)
    run.run.workflow.write_bytes(content)
    answer = client.ask("run/k7f3aa")
    assert answer.status == 500
    assert answer.read()
    assert "k7f3aa" in client.read()


@pytest.mark.parametrize("error", [KeyError("x"), IndexError(7), ValueError("no number"), OSError(5, "I/O", "f")])
def test_any_error_of_a_damaged_run_is_answered(client: Client, error: Exception) -> None:
    class Damaged(DashboardPages):
        def page(self, run: str) -> MadePage:
            raise error

    client.server.pages = Damaged()
    answer = client.ask("run/k7f3aa")
    assert (answer.status, answer.read().strip() != b"") == (500, True)


def test_a_fault_of_its_own_is_answered_and_printed(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    class Faulty(DashboardPages):
        def page(self, run: str) -> MadePage:
            raise ZeroDivisionError(run)

    client.server.pages = Faulty()
    answer = client.ask("run/k7f3aa")
    assert (answer.status, answer.read()) == (500, b"the page cannot be made: ZeroDivisionError: k7f3aa\n")
    client.server.pages = DashboardPages()
    assert client.ask().status == 200
    printed: list[str] = []

    def whole() -> str:
        # The browser has its answer before the server has printed the fault.
        printed.append(capsys.readouterr().err)
        text = "".join(printed)
        return text if text.count("-" * 40 + "\n") == 2 else ""

    text = eventually(whole)
    assert "ZeroDivisionError: k7f3aa" in text
    assert client.server.token not in text


@pytest.mark.full
def test_a_thousand_runs_are_listed(client: Client, tmp_path: Path) -> None:
    for number in range(1000):
        root = tmp_path / f"{number:04}"
        (root / "journal").mkdir(parents=True)
        name = f"k{number:05}"
        report = RunReport(
            id=name,
            name=name,
            path=str(root),
            service="local",
            state=JobState.SUCCEEDED,
            expected=6,
            counts=SIX,
            labels={"a": SIX},
            submitted_at=NOW + number,
            finished_at=NOW + number,
        )
        stamp = journal_stamp(str(root))
        entry = RegistryEntry(
            id=name, path=str(root), name=name, service="local", created_at=NOW + number, report=report, stamp=stamp
        )
        write_entry(entry)
    text = client.read()
    assert text.count('<a class="mono" href="run/k') == 1000
    assert text.index("k00999") < text.index("k00000")
    assert len(text) < 2_000_000


def test_a_silent_client_holds_up_nobody(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.server.server_address[1]), timeout=60) as silent:
        silent.sendall(b"GET /")
        assert client.ask().status == 200


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 is in use"), open_dashboard(port):
            pass
