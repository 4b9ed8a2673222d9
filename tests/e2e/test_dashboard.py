"""``longshore dashboard`` as a program: it prints its address, and Ctrl-C ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.command import Cli


def test_the_dashboard_prints_its_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "longshore", "dashboard", "--no-open"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        name, _, address = process.stdout.readline().strip().partition(": ")
        assert name == "Dashboard"
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - an address of our own
            assert b"No run is registered" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == "Ctrl-C ends it; runs continue.\n\n"


@pytest.mark.parametrize("port", ["65536", "x"])
def test_a_port_that_is_none_is_refused(cli: Cli, port: str) -> None:
    done = cli("dashboard", "--port", port)
    assert done.returncode == 2
    assert port in done.stderr
