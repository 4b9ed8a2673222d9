"""Cases of regular expressions of users, with logs on which they are slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import yaml
from tests.fuzz.graphs import TRACE, small_trace
from tests.fuzz.kind import Files, Kind, Step
from tests.progress_notes import ProgressNotes

from longshore.config.retries import parse_regex
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.model.values import RegexError, compile_regex
from longshore.plan.lint_file import lint_file
from longshore.plan.stages import Stage, run_stages
from longshore.reports.logs import compile_pattern, read_log
from longshore.reports.run_list import parse_filters
from longshore.system.host import CpuLimitError
from longshore.system.regex_search import find_match

_ATOMS = (
    *(
        "a",
        "b",
        ".",
        r"\d",
        r"\w",
        r"\s",
        r"\bOOM\b",
        "é",
        "[a-z]",
        "[^a]",
        "^",
        "$",
        "(?:)",
        r"\.",
        "(?:x{2,3})",
        "error",
    ),
    *(r"\1", r"\2", "(?=a)", "(?!a)", "(?<=a)", "(?P<n>a)", "(?P=n)", "(?i:a)", "(?i)", "(?>a+)", "a++", "(?(1)a|b)"),
)
_PLAIN_ATOMS = 16
"""Atoms that are valid anywhere; the others refer to groups, or are of one place."""
_BROKEN = (
    *("(", ")", "[", "]", "{", "*", "+?", "(?", "(?P<", "\\", "[z-a]", "\x00"),
    *("x{99999999999}", "x{2,1}", "(?<=a*)"),
)
_LOGS = (b"a" * 60 + b"!", b"ab" * 40, b"error: OOM at line 12\n" * 50, bytes(range(256)) * 4, b"a" * 10_000, b"")


def _expression(chance: Random, *, is_broken: bool, depth: int = 0) -> str:
    parts = []
    for _ in range(chance.randrange(1, 5)):
        kind = chance.random()
        if kind < 0.35 and depth < 5:
            part = f"({_expression(chance, is_broken=is_broken, depth=depth + 1)})"
        elif kind < 0.45 and depth < 5:
            sides = [_expression(chance, is_broken=is_broken, depth=depth + 1) for _ in range(2)]
            part = f"(?:{'|'.join(sides)})"
        elif kind < 0.55 and is_broken:
            part = chance.choice(_BROKEN)
        else:
            # Those that refer to a group need one before them.
            part = chance.choice(_ATOMS[: len(_ATOMS) if is_broken else _PLAIN_ATOMS])
        # Most that match no character cannot be repeated.
        can_repeat = part not in {"^", "$", r"\bOOM\b", "(?:)", "(?i)", "a++"} or is_broken
        parts.append(part + chance.choice(("", "", "", "*", "+", "?", "{2}", "{1,30}", "*?")) * can_repeat)
    return "".join(parts)


def _make(chance: Random) -> Files:
    text = _expression(chance, is_broken=chance.random() < 0.2)
    if chance.random() < 0.05:
        text = chance.choice((text * 500, "(" * chance.randrange(1, 6000) + text, text + "{1,30}" * 5))
    run = {"wfformat": TRACE, "retryOn": {"log": text}, "successIf": {"log": text}, "executeMachinesPattern": text}
    return {
        "regex.txt": text.encode(),
        "job.log": chance.choice(_LOGS),
        "run.yaml": yaml.safe_dump(run, allow_unicode=True).encode(),
        TRACE: small_trace(chance),
    }


def _report() -> RunReport:
    name = "a" * 60 + "!"
    return RunReport(
        id="a", name=name, path="/a", service="local", state=JobState.RUNNING, expected=1, counts={}, labels={}
    )


def _search(text: str, log: bytes) -> None:
    """Search as an engine does."""
    with suppress(CpuLimitError, RegexError):
        pattern = compile_regex(text, multiline=True)
        for is_last in (False, True):
            find_match(pattern, log.decode("utf-8", "replace"), seconds=1.0, is_last=is_last)


def _steps(files: Files) -> Iterator[Step]:
    text = files["regex.txt"].decode("utf-8", "surrogateescape")
    yield lambda: parse_regex(text, "retryOn.log")
    yield lambda: lint_file(Path("run.yaml"))
    yield lambda: run_stages(Path("run.yaml"), Stage.TRANSFORM, progress=ProgressNotes())
    yield lambda: _search(text, files["job.log"])
    yield lambda: list(read_log(Path("job.log"), pattern=compile_pattern(text)))
    yield lambda: parse_filters([f"run~{text}"])(_report())


REGEX = Kind(make=lambda chance, _: _make(chance), steps=_steps)
