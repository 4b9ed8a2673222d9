"""What a notice says, and how it is sent: by commands and webhooks, within a bounded time, side by side."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile, gettempdir
from types import TracebackType
from typing import IO, Final, Self

import msgspec
from msgspec import structs

from longshore.engine.policy.retry import UNSTARTABLE
from longshore.errors import DECODE_ERRORS
from longshore.model.notice import Notice, NoticeEvent, NoticeRule, SecretReference
from longshore.model.report import Failure, RunReport, count_failed_jobs
from longshore.model.states import JobState
from longshore.model.wording import count_noun
from longshore.system.room import FULL_ERRORS

# Composes notices from the report of a run (pure functions).


_MAX_GROUPS: Final = 5
"""Groups of failures in one notice."""
_MAX_LINE: Final = 300
_SUBJECTS: Final = {
    NoticeEvent.START: "started",
    NoticeEvent.FIRST_FAILURE: "first failure",
    NoticeEvent.HOLD: "on hold",
    NoticeEvent.STOPPED: "stopped: nothing drives it any more",
}


def compose_notice(event: NoticeEvent, report: RunReport, run_id: str) -> Notice:
    """Compose the notice of an event; `run_id` is the id that the run keeps over restarts."""
    title = report.state.value if event is NoticeEvent.END else _SUBJECTS[event]
    return Notice(
        event=event,
        run=run_id,
        name=_one_line(report.name),
        directory=report.path,
        service=report.service,
        state=report.state,
        counts={state: number for state, number in report.counts.items() if number},
        subject=_one_line(f"longshore: {report.name} ({run_id}) {title}{_share_done(event, report)}"),
        text="\n".join(_lines(event, report, run_id)) + "\n",
    )


def trial_notice(name: str) -> Notice:
    """Return a notice that tells no event, for a user who tries the rules of a configuration of that name."""
    return Notice(
        event=NoticeEvent.END,
        run="test",
        name=_one_line(name),
        directory="",
        service="",
        state=JobState.UNKNOWN,
        counts={},
        subject=_one_line(f"longshore: test of the notices of {name}"),
        text=f"This is a test of the notices of {_one_line(name)}. No run is concerned.\n",
    )


def webhook_body(notice: Notice, rule: NoticeRule) -> bytes:
    """Return the JSON that a webhook gets."""
    if rule.format == "slack":
        # In Slack's language, foreign text between angle brackets would call a whole channel or show another link.
        return msgspec.json.encode({"text": escape(f"{notice.subject}\n{notice.text}", quote=False)})
    # A path may have bytes that are no UTF-8.
    directory = notice.directory.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return msgspec.json.encode(structs.replace(notice, directory=directory))


def command_variables(notice: Notice) -> dict[str, str]:
    """Return the environment variables that a command gets; none has a null character."""
    return {
        "LONGSHORE_EVENT": notice.event.value,
        "LONGSHORE_SUBJECT": notice.subject,
        "LONGSHORE_RUN": notice.run,
        "LONGSHORE_RUN_NAME": notice.name,
        "LONGSHORE_RUN_DIRECTORY": notice.directory.replace("\0", ""),
        "LONGSHORE_STATE": notice.state.value,
    }


def _share_done(event: NoticeEvent, report: RunReport) -> str:
    done = report.counts.get(JobState.SUCCEEDED, 0)
    return "" if event is NoticeEvent.START else f", {done} of {count_noun(report.expected, 'job')} succeeded"


def _lines(event: NoticeEvent, report: RunReport, reference: str) -> Iterator[str]:
    counts = ", ".join(f"{number} {state.value}" for state, number in report.counts.items() if number)
    yield _one_line(f"{report.name} is {report.state.value}: {counts or 'no job yet'}")
    yield _one_line(f"Directory: {report.path}")
    yield from (_one_line(note) for note in report.notes)
    if report.summary is not None and event is not NoticeEvent.START:
        failures = report.summary.failures
        yield from map(_failure_line, failures[:_MAX_GROUPS])
        if len(failures) > _MAX_GROUPS:
            rest = count_failed_jobs(failures) - count_failed_jobs(failures[:_MAX_GROUPS])
            yield f"and {count_noun(len(failures) - _MAX_GROUPS, 'more group')} of {count_noun(rest, 'failed job')}"
    yield ""
    yield f"More: longshore report --id {reference}"
    if event is NoticeEvent.STOPPED:
        yield f"To go on: longshore resume {reference}"
    elif event is NoticeEvent.HOLD and report.paused:
        yield f"To go on: longshore unpause {reference}"
    elif event is NoticeEvent.HOLD:
        yield f"To go on: longshore release {reference}"
    elif event is NoticeEvent.END and report.state is not JobState.SUCCEEDED:
        yield f"To run again what did not succeed: longshore restart {reference}"


def _failure_line(group: Failure) -> str:
    how = group.cause.value if group.cause else "failed"
    if group.exit_code is not None:
        how += f", exit code {group.exit_code}"
    message = group.message or group.reason or "no message"
    if group.unread:
        how += f", and perhaps more of {group.unread} whose logs were not read"
    return _one_line(f"{count_noun(group.count, 'job')} of '{group.label}' ({how}), such as {group.job}: {message}")


def _one_line(text: str) -> str:
    """Return a text without line breaks and other control characters, and not too long for a subject."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain if len(plain) <= _MAX_LINE else plain[: _MAX_LINE - 3] + "..."


# Delivers a notice: runs a command, or calls a webhook, within a bounded time.


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


# Sends notices side by side: no rule waits for another one, and the notices of one rule keep their order.


_MAX_WAIT_S: Final = 3600.0
"""Longest wait in one call of a queue: it takes no infinite one."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A notice that is sent by a rule; commands start in `folder`.

    Attributes
    ----------
    life
        Number of what drove the run when the notice fell due.
    why
        Why it was not sent; empty if it was, or is not sent yet.
    """

    rule: NoticeRule
    notice: Notice
    folder: Path
    life: int = 0
    why: str = ""


class Deliveries:
    """Notices on their way, each rule's in a thread of its own.

    At the end of the context, commands that still run are killed with their children, and their notices count as not
    sent.
    """

    def __init__(self) -> None:
        self.open_number = 0
        """Number of notices whose result nobody has taken."""
        self._commands = RunningCommands()
        self._waiting: dict[str, SimpleQueue[Delivery]] = {}
        self._ended: SimpleQueue[Delivery] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._commands.kill()

    def add(self, delivery: Delivery) -> None:
        """Send a notice, after the earlier ones of its rule."""
        name = delivery.rule.name
        self.open_number += 1
        if name not in self._waiting:
            waiting: SimpleQueue[Delivery] = SimpleQueue()
            # A webhook that hangs must not keep the process from ending.
            thread = threading.Thread(target=self._send_all, args=(waiting,), daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # As many threads as the user may have run already.
                self._ended.put(msgspec.structs.replace(delivery, why=f"no thread for it: {error}"))
                return
            self._waiting[name] = waiting
        self._waiting[name].put(delivery)

    def take_ended(self, wait_s: float = math.inf) -> list[Delivery]:
        """Return notices with their results, in the order of their rules; wait up to `wait_s` for the first one."""
        ended: list[Delivery] = []
        deadline = time.monotonic() + wait_s
        while not ended and self.open_number:
            left_s = deadline - time.monotonic()
            try:
                ended.append(self._ended.get(timeout=max(0.0, min(left_s, _MAX_WAIT_S))))
            except Empty:
                if left_s <= _MAX_WAIT_S:
                    break
        while not self._ended.empty():
            ended.append(self._ended.get())
        self.open_number -= len(ended)
        return sorted(ended, key=lambda delivery: delivery.rule.name)

    def _send_all(self, waiting: SimpleQueue[Delivery]) -> None:
        while True:
            delivery = waiting.get()
            why = ""
            try:
                deliver(delivery.notice, delivery.rule, delivery.folder, self._commands)
            except DeliveryError as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other notices are sent
                # Its text may have an address.
                why = f"an error of Longshore itself: {type(error).__name__}"
            self._ended.put(msgspec.structs.replace(delivery, why=why))
