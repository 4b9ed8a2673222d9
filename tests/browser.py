"""A headless Chromium that tests drive through its pipe, without any package: pages, scripts, pictures."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "about:blank"),
)
_PATIENCE_S = 60.0


class Page:
    """A page in a browser: what it requested, and what its console said."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.requests: list[str] = []
        self.console: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def open(self, address: str) -> None:
        answer = self.send("Page.navigate", url=address)
        assert "errorText" not in answer, answer["errorText"]
        self.wait_for("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return the value of an expression of the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self.run(script):
            assert time.monotonic() < deadline, f"never true: {script}"
            self._browser.pump(0.05)

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, selector: str, text: str) -> None:
        """Replace the text of an input, as typing does."""
        self.run(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}); box.value = {json.dumps(text)};"
            "box.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    def picture(self, path: Path, *, whole: bool = False) -> None:
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(str(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.console.append(str(parameters["entry"]["text"]))


class Browser:
    """A running Chromium."""

    def __init__(self, program: str, folder: Path) -> None:
        (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
        # Chromium reads commands from descriptor 3, and writes answers to 4; neither may be one of these pipes.
        high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 20) for each in (theirs_in, theirs_out)]
        line = ["bash", "-c", f'exec "$@" 3<&{high[0]} 4>&{high[1]}', "bash", program]
        self._process = subprocess.Popen(
            [*line, *_FLAGS, f"--user-data-dir={folder}"],
            pass_fds=high,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for each in (theirs_in, theirs_out, *high):
            os.close(each)
        self._in, self._out = ours_in, ours_out
        self._selector = selectors.DefaultSelector()
        self._selector.register(ours_in, selectors.EVENT_READ)
        self._buffer = b""
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}

    def new_page(self) -> Page:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        return page

    def send(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE_S
        while number not in self._answers:
            assert time.monotonic() < deadline, f"no answer to {method}"
            self.pump(1.0)
        answer = self._answers.pop(number)
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    def pump(self, seconds: float) -> None:
        """Take what the browser says within some seconds."""
        if not self._selector.select(seconds):
            return
        piece = os.read(self._in, 1 << 20)
        assert piece, "the browser ended"
        *messages, self._buffer = (self._buffer + piece).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            elif page := self._pages.get(message.get("sessionId", "")):
                page.note(message["method"], message["params"])

    def close(self) -> None:
        with suppress(AssertionError, OSError):
            self.send("Browser.close")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._selector.close()
        os.close(self._in)
        os.close(self._out)


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile in a folder; without Chromium the test is skipped, or fails where it is required.

    `LONGSHORE_POOLS=required`, which CI sets, requires it as it requires schedulers.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        words = "no Chromium is installed (Debian: apt-get install chromium)"
        if os.environ.get("LONGSHORE_POOLS") == "required":
            pytest.fail(words)
        pytest.skip(words)
    browser = Browser(program, folder)
    try:
        yield browser
    finally:
        browser.close()
