"""Delivers a notice: runs a command, or calls a webhook, within a bounded time."""

from __future__ import annotations

import os
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
_MAX_SECRET_B: Final = 8192


class DeliveryError(Exception):
    """A notice was not sent; the message says why, and has no secret."""


def deliver(notice: Notice, rule: NoticeRule, folder: Path) -> None:
    """Send a notice by a rule; commands start in `folder`. Raises `DeliveryError` if that fails."""
    if rule.webhook is None:
        _run_command(notice, rule, folder)
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


def _run_command(notice: Notice, rule: NoticeRule, folder: Path) -> None:
    try:
        with TemporaryFile() as text, TemporaryFile() as output:
            text.write(notice.text.encode())
            text.seek(0)
            status = _wait_for_command(notice, rule, folder, text, output)
            said = _last_line(output)
    except OSError as error:
        # A full folder of temporary files, for example.
        place = f" in '{gettempdir()}'" if error.errno in FULL_ERRORS else ""
        raise DeliveryError(f"the command cannot be started: {error.strerror or error}{place}") from error
    if status:
        how = f"exit code {status}" if status > 0 else f"signal {-status}"
        # A path that is relative to the configuration is the usual mistake.
        where = f" (it starts in '{folder}')" if status in UNSTARTABLE else ""
        raise DeliveryError(f"the command failed with {how}" + (f": {said}" if said else "") + where)


def _wait_for_command(notice: Notice, rule: NoticeRule, folder: Path, text: IO[bytes], output: IO[bytes]) -> int:
    """Run a command with its words in `output`, and return its status; kill it after its time."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", rule.command],
        stdin=text,
        stdout=output,
        stderr=output,
        cwd=folder,
        env={**os.environ, **command_variables(notice)},
        start_new_session=True,
    )
    try:
        return process.wait(rule.timeout_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise DeliveryError(f"the command had not ended after {rule.timeout_s:g} s, and was killed") from None


def _last_line(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _SAID_B))
    said = output.read().decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else ""


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
