"""Stand-in of PanDA's server on the loopback interface: the one call by which its client relays commands to iDDS.

It is built from what `pandaclient` sends and the plug-in of BPS reads, and runs no job.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/server/panda"


class PandaServer:
    """Answers commands, and remembers them."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, dict[str, Any]]] = []
        self.status = "Transforming"
        self.tasks: dict[str, dict[str, int]] = {}
        self.url = ""

    def answer(self, command: str, arguments: dict[str, Any]) -> Any:
        self.commands.append((command, arguments))
        match command:
            case "submit":
                return [True, 4711]
            case "get_requests":
                return [True, [self._task(*item) for item in self.tasks.items()]]
            case "ping":
                return [True, {"Status": "OK"}]
            case "retry" | "abort":
                self.status = "Cancelled" if command == "abort" else "Transforming"
                return [True, [[0, f"{command} is done"]]]
        return [False, f"no command '{command}'"]

    def names(self) -> list[str]:
        return [name for name, _ in self.commands]

    def _task(self, label: str, counts: dict[str, int]) -> dict[str, Any]:
        return {
            "request_id": 4711,
            "username": "someone",
            "name": "run",
            "status": {"attributes": {"_name_": self.status}},
            "transform_id": 1,
            "transform_workload_id": 1,
            "transform_name": f"u_someone_20260101T000000Z_1_{label}_0",
            "transform_status": {"attributes": {"_name_": self.status}},
            "output_total_files": sum(counts.values()),
            "output_new_files": counts.get("input_new_files", 0),
            "input_new_files": 0,
            **counts,
        }


@contextmanager
def panda_server() -> Iterator[PandaServer]:
    """Serve until the body is left."""
    panda = PandaServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            data = json.loads(gzip.decompress(body))
            assert self.path == f"{PATH}/relay_idds_command"
            text = json.dumps(panda.answer(data["command_name"], json.loads(data.get("kwargs", "{}")))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    panda.url = f"http://127.0.0.1:{server.server_address[1]}{PATH}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield panda
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
