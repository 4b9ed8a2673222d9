"""Delivers a notice: runs a command, or calls a webhook, within a bounded time."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Final

from longshore.app.notices.compose import command_variables, webhook_body
from longshore.engine.policy.retry import UNSTARTABLE
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.notice import Notice, NoticeRule, SecretReference
from longshore.world.files.disk_space import FULL_ERRORS

_TRIES: Final = 3
"""Calls of a webhook that answers with an error of its own, or not at all."""
_PAUSE_S: Final = 2.0
_SAID_B: Final = 4096
_MAX_SAID: Final = 200
"""Characters of a command's last line in a message, as of an error line of a log."""
_MAX_SECRET_B: Final = 8192
_GUARD_S: Final = 5.0
"""Time after its timeout in which a command still runs if the notifier that should kill it was killed itself."""
_KILL_S: Final = 2.0
"""Longest wait for a command that is just being started before all are killed."""


class DeliveryError(Exception):
    """A notice was not sent; the message says why, and has no secret."""


class RunningCommands:
    """Commands that threads of this process run now; `kill` ends all, and no other starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False

    def start(
        self, rule: NoticeRule, folder: Path, variables: dict[str, str], text: IO[bytes], output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start the command of a rule in a session of its own. Raises `OSError` if it cannot be started."""
        with self._lock:
            if self._is_closed:
                raise DeliveryError("the notifier ends")
            process = subprocess.Popen(
                [*_guard(rule.timeout_s), "/bin/sh", "-c", rule.command],
                stdin=text,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**os.environ, **variables},
                start_new_session=True,
            )
            self._processes.add(process)
        return process

    def wait(self, process: subprocess.Popen[bytes], timeout_s: float) -> int:
        """Return the status of a command; kill it after its time, and raise `TimeoutExpired`."""
        try:
            return process.wait(timeout_s)
        finally:
            _kill_group(process)
            process.wait()
            self._processes.discard(process)

    def kill(self) -> None:
        """Kill all commands with their children."""
        # A command that is started on a file server that hangs would hold the lock for ever.
        is_held = self._lock.acquire(timeout=_KILL_S)
        self._is_closed = True
        for process in tuple(self._processes):
            _kill_group(process)
        if is_held:
            self._lock.release()


def deliver(notice: Notice, rule: NoticeRule, folder: Path, commands: RunningCommands) -> None:
    """Send a notice by a rule; commands start in `folder`. Raises `DeliveryError` if that fails."""
    if rule.webhook is None:
        _run_command(notice, rule, folder, commands)
        return
    address = read_secret(rule.webhook)
    deadline = time.monotonic() + rule.timeout_s
    outcome: list[str] = []
    # A server that sends a byte now and then never exceeds the timeout of a socket.
    call = partial(_call_webhook, notice, rule, address, deadline)
    thread = threading.Thread(target=lambda: outcome.append(call()), daemon=True)
    thread.start()
    thread.join(rule.timeout_s)
    why = outcome[0] if outcome else f"no answer within {rule.timeout_s:g} s"
    if why:
        raise DeliveryError(why)


def read_secret(reference: SecretReference) -> str:
    """Return the secret that a reference names; raises `DeliveryError` if it is not there."""
    if reference.env:
        if value := os.environ.get(reference.env, "").strip():
            return value
        raise DeliveryError(f"the variable '{reference.env}' is not set where notices are sent")
    try:
        with Path(reference.file).expanduser().open("rb") as file:
            line = file.read(_MAX_SECRET_B).decode().partition("\n")[0].strip()
    except (OSError, RuntimeError, *DECODE_ERRORS) as error:
        words = error.strerror if isinstance(error, OSError) else "it is no text"
        raise DeliveryError(f"the file '{reference.file}' with the address cannot be read: {words}") from None
    if not line:
        raise DeliveryError(f"the first line of '{reference.file}' is empty: it should have the address")
    return line


def _run_command(notice: Notice, rule: NoticeRule, folder: Path, commands: RunningCommands) -> None:
    try:
        with TemporaryFile() as text, TemporaryFile() as output:
            text.write(notice.text.encode())
            text.seek(0)
            process = commands.start(rule, folder, command_variables(notice), text, output)
            status = commands.wait(process, rule.timeout_s)
            said = _last_line(output)
    except subprocess.TimeoutExpired:
        raise DeliveryError(f"the command had not ended after {rule.timeout_s:g} s, and was killed") from None
    except OSError as error:
        # A full folder of temporary files, for example.
        place = f" in '{gettempdir()}'" if error.errno in FULL_ERRORS else ""
        raise DeliveryError(f"the command cannot be started: {error.strerror or error}{place}") from error
    if status:
        how = f"exit code {status}" if status > 0 else f"signal {-status}"
        # A path that is relative to the configuration is the usual mistake.
        where = f" (it starts in '{folder}')" if status in UNSTARTABLE else ""
        raise DeliveryError(f"the command failed with {how}" + (f": {said}" if said else "") + where)


def _guard(timeout_s: float) -> list[str]:
    """Return a program in front of a command that kills it, also after this process was killed; none where it lacks."""
    program = shutil.which("timeout")
    return [program, "-s", "KILL", str(math.ceil(timeout_s + _GUARD_S))] if program else []


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a command that has not ended, with its children; what a command that ended left goes on."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _last_line(output: IO[bytes]) -> str:
    """Return the last line of a command's words, or the most of it that a message takes."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _SAID_B))
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return ""
    if len(lines[-1]) <= _MAX_SAID:
        return lines[-1]
    has_begun_before = len(lines) == 1 and size > _SAID_B
    return f"...{lines[-1][3 - _MAX_SAID :]}" if has_begun_before else f"{lines[-1][: _MAX_SAID - 3]}..."


def _call_webhook(notice: Notice, rule: NoticeRule, address: str, deadline: float) -> str:
    """Call a webhook, again after errors of the server; return why it did not accept the notice, empty if it did."""
    why = ""
    for number in range(_TRIES):
        pause_s = _PAUSE_S * number
        if time.monotonic() + pause_s >= deadline:
            break
        time.sleep(pause_s)
        why, is_final = _post(address, webhook_body(notice, rule), deadline - time.monotonic())
        if not why or is_final:
            break
    return why


def _post(address: str, body: bytes, timeout_s: float) -> tuple[str, bool]:
    """Post JSON; return what went wrong, if anything, and whether another try is useless. Never names the address."""
    # Imported late: most notifiers run commands, and these modules are slow to import.
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class RefuseRedirect(HTTPRedirectHandler):
        """Makes a redirect an error: it would be followed without the notice."""

        def redirect_request(self, *_args: object, **_names: object) -> None:
            """Follow no redirect."""

    if not address.lower().startswith(("http://", "https://")):
        return "the address does not begin with https:// or http://", True
    headers = {"Content-Type": "application/json", "User-Agent": "longshore"}
    try:
        plain_address, login = _split_login(address)
        request = Request(plain_address, body, headers | login)  # noqa: S310 - the scheme was checked
        with build_opener(RefuseRedirect).open(request, timeout=timeout_s):
            return "", True
    except HTTPError as error:
        elsewhere = ": it sends the notice to another address" if 300 <= error.code < 400 else ""
        is_final = error.code < 500 and error.code not in {408, 429}
        return f"the server answered {error.code} {error.reason}{elsewhere}", is_final
    except TimeoutError:
        return "the server did not answer in time", False
    except URLError as error:
        return f"the server cannot be reached: {_reason(error.reason)}", False
    except (OSError, ValueError, HTTPException) as error:
        # The text of the other two may have the address.
        return f"the call failed: {_reason(error)}", False


def _split_login(address: str) -> tuple[str, dict[str, str]]:
    """Return an address without the user and password in it, and the header that has these.

    The library would take them for a part of the host's name. Raises `ValueError` for an address that is none.
    """
    from base64 import b64encode
    from urllib.parse import unquote_to_bytes, urlsplit

    parts = urlsplit(address)
    login, has_login, place = parts.netloc.rpartition("@")
    if not has_login:
        return address, {}
    user, _, password = login.partition(":")
    text = b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode("ascii")
    return parts._replace(netloc=place).geturl(), {"Authorization": f"Basic {text}"}


def _reason(reason: object) -> str:
    return (reason.strerror or type(reason).__name__) if isinstance(reason, OSError) else type(reason).__name__
