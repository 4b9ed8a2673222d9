"""Turns what a site says about setting jobs up, and starting them, into lines for the job's shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

_FIND_MODULE = 'command -v module >/dev/null 2>&1 || . "${LMOD_PKG:-${MODULESHOME}}/init/sh"'
"""A shell that is no login shell does not have the command, but Lmod and Environment Modules say where it is."""


def setup_lines(site: str, lines: Iterable[str], modules: Iterable[str]) -> tuple[str, ...]:
    """The lines that run in a job before its command; one that fails ends the job, and is named."""
    wanted = [f"module load {shlex.quote(module)}" for module in modules]
    return tuple(_or_say(site, line) for line in [*([_FIND_MODULE] if wanted else []), *wanted, *lines])


def launch_line(launcher: str, container: str | Sequence[str] | None) -> str:
    """The line of shell in front of a command: what starts it, and the container in which it is started."""
    inside = container if isinstance(container, str) else shlex.join(map(str, container or ()))
    return " ".join(part for part in (launcher.strip(), inside.strip()) if part)


def _or_say(site: str, line: str) -> str:
    words = shlex.quote(f"longshore: a set-up line of the site '{site}' failed: {line.strip()}")
    return f"{{ {line}\n}} || {{ echo {words} >&2; exit 126; }}"
