"""Server of the dashboard: answers browsers of this host, one thread per request, and never writes."""

from __future__ import annotations

import errno
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from longshore.app.dashboard.access import METHODS, Refusal, check_request
from longshore.app.dashboard.pages import DashboardPages
from longshore.app.page.render import content_policy
from longshore.app.runs.open_run import READ_ERRORS, describe_read_error
from longshore.errors import RunNotFoundError, RunUnreadableError, UsageError

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
