"""Shell lines that set up and launch jobs at a site."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

_FIND_MODULE = 'command -v module >/dev/null 2>&1 || . "${LMOD_PKG:-${MODULESHOME}}/init/sh"'
"""Only login shells have the command, but Lmod and Environment Modules set the path of its script."""


def setup_lines(site: str, lines: Iterable[str], modules: Iterable[str]) -> tuple[str, ...]:
    """Lines that run in a job before its command; a line that fails ends the job and is named."""
    wanted = [f"module load {shlex.quote(module)}" for module in modules]
    return tuple(_report_failure(site, line) for line in [*([_FIND_MODULE] if wanted else []), *wanted, *lines])


def launch_line(launcher: str, container: str | Sequence[str] | None) -> str:
    """Line of shell in front of a command: the launcher, then the container."""
    inside = container if isinstance(container, str) else shlex.join(map(str, container or ()))
    return " ".join(part for part in (launcher.strip(), inside.strip()) if part)


def _report_failure(site: str, line: str) -> str:
    words = shlex.quote(f"longshore: a set-up line of the site '{site}' failed: {line.strip()}")
    return f"{{ {line}\n}} || {{ echo {words} >&2; exit 126; }}"
