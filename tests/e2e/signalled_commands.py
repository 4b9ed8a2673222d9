"""Runs commands that get a signal when they open a certain file; reads them as JSON, and prints what became of each.

The package is imported once: each command is a fork of this process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import sys
from pathlib import Path
from typing import Any

import longshore
from longshore.cli.start import main


def signal_at(files: list[str], number: int) -> None:
    """Signal this process when it opens a file, after the files that are named before it."""
    left = list(files)

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and left and str(arguments[0]).endswith(left[0]):
            del left[0]
            if not left:
                os.kill(os.getpid(), number)

    sys.addaudithook(look)


def run(command: dict[str, Any]) -> int:
    """Fork, run a command in the child, and return the child's wait status."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(command["streams"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    signal_at(command["files"], command["number"])
    sys.argv[1:] = command["args"]
    main()
    return 0


def serve() -> None:
    """Run each command of standard input, one after the other."""
    for module in pkgutil.walk_packages(longshore.__path__, "longshore."):
        if not module.name.endswith("__main__"):
            # Modules of extras that are not there.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    gc.freeze()
    for command in json.load(sys.stdin):
        status = os.waitstatus_to_exitcode(run(command))
        texts = [Path(command["streams"], name).read_text("utf-8") for name in ("out", "err")]
        sys.stdout.write(json.dumps({"status": status, "out": texts[0], "err": texts[1]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
