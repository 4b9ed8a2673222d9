"""Detached start of a process that outlives its terminal: a new session, or a systemd scope."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from longshore.world.files.atomic import open_to_append
from longshore.world.host import user_name

if TYPE_CHECKING:
    import subprocess

_SYSTEMD_TIMEOUT_S = 5.0
"""Seconds to wait for systemd's answer."""


class DetachMethod(msgspec.Struct, frozen=True):
    """A way to detach a process."""

    prefix: tuple[str, ...]
    """Words in front of the command."""
    description: str


def choose_detach_method() -> DetachMethod:
    """Choose the most robust way to detach that this host offers.

    A session of its own survives a closed terminal. Where systemd ends all processes of a user at logout, only a scope
    of a user with lingering enabled survives that too.
    """
    if _has_lingering():
        return DetachMethod(
            ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--"),
            "in a systemd scope of its own; it survives logging out",
        )
    return DetachMethod((), "in a session of its own; it survives the terminal")


def start_detached(
    command: Sequence[str], *, log: Path, variables: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], DetachMethod]:
    """Start a command in the background, with its output appended to a file; `variables` are added to its environment.

    Raises `OSError` when the command cannot be started, or the file cannot be written.
    """
    import subprocess

    method = choose_detach_method()
    with open_to_append(log, below=log.parent) as output:
        process = subprocess.Popen(
            [*method.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )
    return process, method


def _has_lingering() -> bool:
    if not os.environ.get("XDG_RUNTIME_DIR"):
        return False
    # Imported late: elsewhere, `ping` needs neither.
    import shutil
    import subprocess

    if not (shutil.which("systemd-run") and shutil.which("loginctl")):
        return False
    query = ["loginctl", "show-user", user_name(), "--property=Linger", "--value"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_SYSTEMD_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == "yes"
