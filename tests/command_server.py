"""Imports ``longshore`` once, and forks for each command that `tests.command.CommandServer` asks for."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

_LENGTH = struct.Struct("!I")
_STREAMS = 3


def _receive(of: socket.socket) -> tuple[Any, list[int]] | None:
    head, numbers, _, _ = socket.recv_fds(of, _LENGTH.size, _STREAMS + 1, socket.MSG_WAITALL)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head)
    return json.loads(of.recv(length, socket.MSG_WAITALL)), list(numbers)


def serve(control: socket.socket) -> bool:
    """Fork for each command that is asked for. True in the command, false in the server when nobody asks any more."""
    _import_all()
    gc.collect()
    gc.freeze()
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not control:
                _tell_end(selector, key)
            elif (received := _receive(control)) is None:
                return False
            elif _start(selector, *received):
                control.close()
                selector.close()
                return True


def _import_all() -> None:
    import longshore

    for module in pkgutil.walk_packages(longshore.__path__, "longshore."):
        if not module.name.endswith("__main__"):
            # Modules of extras that are not there.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _start(selector: selectors.BaseSelector, asked: dict[str, Any], numbers: list[int]) -> bool:
    """Fork; true in the command, which has then become what was asked for."""
    pid = os.fork()
    if pid:
        *streams, told = numbers
        for number in streams:
            os.close(number)
        os.write(told, f"{pid} ".encode())
        selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
        return False
    for number, stream in enumerate(numbers[:_STREAMS]):
        os.dup2(stream, number)
    for number in numbers:
        os.close(number)
    for key in list(selector.get_map().values()):
        if key.data:
            os.close(key.fd)
            os.close(key.data[1])
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    sys.argv = [str(Path(importlib.import_module("longshore").__path__[0], "__main__.py")), *asked["args"]]
    # What `python -m` puts there in place of the folder of this file.
    sys.path[0] = asked["cwd"]
    sys.stdin = sys.__stdin__ = _reopened(sys.stdin, 0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _reopened(sys.stdout, 1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _reopened(sys.stderr, 2, "w")  # type: ignore[misc]
    return True


def _reopened(stream: Any, number: int, mode: str) -> Any:
    return open(number, mode, encoding=stream.encoding, errors=stream.errors, closefd=False)


def _tell_end(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pid, told = key.data
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    selector.unregister(key.fileobj)
    os.close(key.fd)
    # Who asked may have given up.
    with contextlib.suppress(BrokenPipeError):
        os.write(told, str(status).encode())
    os.close(told)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        _asked = serve(_control)
    if _asked:
        from longshore.cli.main import main

        main()
