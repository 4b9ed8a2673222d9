"""The dashboard: the list of runs and the page of each, served to browsers of this host, which never writes."""

from __future__ import annotations

import errno
import hashlib
import hmac
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from longshore.errors import RunNotFoundError, RunUnreadableError, UsageError
from longshore.reports.page.render import content_policy, make_run_page, render_list_page
from longshore.reports.run_list import RunQuery, list_runs
from longshore.rundir.registry import read_entries
from longshore.runstate.open_run import READ_ERRORS, describe_read_error, open_run

# Which requests are answered: reads of known addresses, with the dashboard's token and from its own name (pure).


METHODS: Final = ("GET", "HEAD")
"""Methods of requests that change nothing."""
_LOCAL_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\s]+)(?::[0-9]{1,5})?", re.ASCII)
_LONGEST_PATH: Final = 2000


class Address(msgspec.Struct, frozen=True):
    """A page of the dashboard: that of a run, or the list of runs if `run` is empty."""

    run: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not answered."""

    status: HTTPStatus
    why: str


def check_request(method: str, host: str | None, target: str, *, token: str) -> Address | Refusal:
    """Return the page that a request names, or why it is refused.

    `host` is the header of that name, `target` the path of the request. A page of another site that a browser was led
    to resolve to this host has another name, whatever the port; a forwarded port has the name ``localhost``.
    """
    if method not in METHODS:
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "The dashboard is only for looking: GET and HEAD.")
    if not is_local_name(host):
        return Refusal(HTTPStatus.FORBIDDEN, "The dashboard answers only to 127.0.0.1 and localhost.")
    if len(target) > _LONGEST_PATH:
        return Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, "The address is too long.")
    _, _, path = _path_of(target).partition("/")
    given, slash, rest = path.partition("/")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return Refusal(
            HTTPStatus.FORBIDDEN,
            "The address lacks the token of this dashboard: open the one that its command printed.",
        )
    kind, _, run = rest.partition("/")
    if slash and not rest:
        return Address()
    if kind == "run" and run and "/" not in run:
        return Address(unquote(run))
    return Refusal(HTTPStatus.NOT_FOUND, "There is no such page.")


def is_local_name(host: str | None) -> bool:
    """Tell whether a header ``Host`` names this host as a user of the dashboard does."""
    found = _HOST.fullmatch(host or "")
    return found is not None and found["name"].lower() in _LOCAL_NAMES


def _path_of(target: str) -> str:
    """Return the path of a target; an empty one if it is no address."""
    try:
        return urlsplit(target).path
    except ValueError:
        return ""


# Each page is made anew when a browser asks for it and its last one is old.


POLL_S: Final = 2
"""Seconds between two looks of a browser at its page."""
_SHARE: Final = 10.0
"""A page that took long to make is kept for this many times as long, times the open pages: looking costs little."""
_OPEN_S: Final = 5 * POLL_S
"""Seconds after its last use that a page counts as open: a browser that shows it would have asked for a new one."""
_EVER_DAYS: Final = 36_500.0
_MAX_PAGES: Final = 50


class MadePage(msgspec.Struct, frozen=True):
    """A page as text, a tag that changes with it, and the monotonic time of its expiry."""

    body: bytes
    tag: str
    until: float


class DashboardPages:
    """Makes pages on demand, for many threads; a page that several ask for at once is made once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, make: Callable[[str], str] | None = None) -> None:
        self._clock = clock
        self._make = make or _make_page
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._pages: dict[str, MadePage] = {}

    def page(self, run: str) -> MadePage:
        """Return the page of a run by one of its ids, or the list of runs if that is empty.

        Raises
        ------
        RunNotFoundError
            No such run is registered, or its directory is gone.
        READ_ERRORS
            The run cannot be read.
        """
        with self._lock:
            lock = self._locks.setdefault(run, threading.Lock())
        with lock:
            made = self._pages.get(run)
            began = self._clock()
            if made is None or made.until <= began:
                text = self._make(run)
                cost = self._clock() - began
                body = text.encode()
                tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                rest = _SHARE * cost * self._count_open(run, began)
                made = MadePage(body, tag, began + cost + max(POLL_S / 2, rest))
                self._keep(run, made)
            return made

    def _count_open(self, run: str, now: float) -> int:
        """Count the pages that browsers look at, with that of a run."""
        with self._lock:
            return 1 + sum(made.until + _OPEN_S > now for key, made in self._pages.items() if key != run)

    def _keep(self, run: str, made: MadePage) -> None:
        with self._lock:
            self._pages.pop(run, None)
            self._pages[run] = made
            while len(self._pages) > _MAX_PAGES:
                # The one that was made first; its lock may be in use.
                self._pages.pop(next(iter(self._pages)))


def _make_page(run: str) -> str:
    return _run_page(run) if run else _list_page()


def _run_page(run: str) -> str:
    """Return the page of a registered run; no address opens anything else.

    The list of runs has the ids of workload managers, where these assign some.
    """
    known = list(read_entries())
    found = [entry for entry in known if entry.id == run] or [entry for entry in known if run in entry.other_ids]
    if not found:
        raise RunNotFoundError(f"no run '{run}' is registered")
    # A workload manager that was reinstalled counts its ids from the beginning again.
    newest = max(found, key=lambda entry: (entry.created_at, entry.id))
    return make_run_page(open_run(newest.id), home="../", poll_s=POLL_S)


def _list_page() -> str:
    found = list_runs(RunQuery(days=_EVER_DAYS), now=time.time())
    return render_list_page(found.reports[::-1], found.notes, poll_s=POLL_S)


LOOPBACK: Final = "127.0.0.1"
_TOKEN_B: Final = 24
_TIMEOUT_S: Final = 20.0
"""Seconds after which a browser that sends nothing is given up."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class DashboardServer(ThreadingHTTPServer):
    """Server of the pages on loopback, with a token that every address has."""

    daemon_threads = True
    block_on_close = False
    # A port that another program listens on is an error; one that was just given up is not.
    allow_reuse_address = True

    def __init__(self, port: int, pages: DashboardPages) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_B)
        self.pages = pages
        super().__init__((LOOPBACK, port), _RequestHandler)

    @property
    def address(self) -> str:
        """Address of the list of runs."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that broke: browsers close theirs at any time. Print any other fault."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextmanager
def open_dashboard(port: int) -> Iterator[DashboardServer]:
    """Open the dashboard on a port of loopback, 0 for a free one; `DashboardServer.serve_forever` answers.

    Raises
    ------
    UsageError
        The port is in use, or may not be used.
    """
    try:
        server = DashboardServer(port, DashboardPages())
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} of {LOOPBACK} is in use: another program listens there",
                hint="Name another one, or leave --port out for a free one.",
            ) from error
        raise UsageError(f"port {port} of {LOOPBACK} cannot be used: {error.strerror}") from error
    try:
        yield server
    finally:
        server.server_close()


class _RequestHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: DashboardServer
    timeout = _TIMEOUT_S
    server_version = "longshore"
    sys_version = ""

    def __getattr__(self, name: str) -> Any:
        # Every method of HTTP, known or not, is checked in one place.
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: addresses have the token."""

    def _answer(self) -> None:
        found = check_request(self.command, self.headers.get("Host"), self.path, token=self.server.token)
        if isinstance(found, Refusal):
            self._send(found.status, found.why)
            return
        try:
            made = self.server.pages.page(found.run)
        except READ_ERRORS as error:
            is_missing = isinstance(error, RunNotFoundError) and not isinstance(error, RunUnreadableError)
            status = HTTPStatus.NOT_FOUND if is_missing else HTTPStatus.INTERNAL_SERVER_ERROR
            self._send(status, describe_read_error(error))
            return
        except Exception as error:
            # A browser would show a server that is gone.
            why = f"the page cannot be made: {type(error).__name__}: {error}"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, why)
            raise
        if self.headers.get("If-None-Match") == made.tag:
            self._send(HTTPStatus.NOT_MODIFIED, "", tag=made.tag)
            return
        self._send(HTTPStatus.OK, made.body, kind="text/html", tag=made.tag)

    def _send(self, status: HTTPStatus, body: bytes | str, *, kind: str = "text/plain", tag: str = "") -> None:
        data = body if isinstance(body, bytes) else f"{body}\n".encode("utf-8", "backslashreplace") if body else b""
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{content_policy(is_live=True)}; frame-ancestors 'none'")
        if tag:
            self.send_header("ETag", tag)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", ", ".join(METHODS))
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD" and data:
            self.wfile.write(data)
