"""YAML that applies suggested requests, with a comment that tells where each value comes from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from longshore.app.output_file import require_parent, write_error
from longshore.app.statistics.request_advice import RequestAdvice
from longshore.app.statistics.suggest_requests import Basis, LabelSuggestion, SuggestedValue
from longshore.config.search import PART_SECTIONS
from longshore.errors import FilesError
from longshore.model.wording import count_noun
from longshore.model.workflow.request import MIB
from longshore.world.files.atomic import create_atomically

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_YAML_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_STATISTICS: Final[Mapping[Basis, str]] = {Basis.P95: "95th percentile", Basis.MAX: "maximum"}


def requests_yaml(advice: RequestAdvice, *, over: str = "", output: Path | None = None) -> str:
    """Return the YAML that applies an advice, and write it to a new file `output`, if one is given.

    `over` is a configuration that the YAML includes, so that it wins over the values there. Raises `FilesError` if
    `over` cannot be read, or `output` exists or cannot be written.
    """
    text = advice_yaml(advice, over=included_name(over, output) if over else "")
    if output is not None:
        write_advice(output, text)
    return text


def write_advice(path: Path, text: str) -> None:
    """Write the YAML of an advice to a new file, whole or not at all.

    Raises `FilesError` if the file exists or cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise FilesError(f"'{path}' exists already", hint="Name another file, or remove it.")
    require_parent(path, path)
    try:
        create_atomically(path, text.encode())
    except OSError as error:
        raise write_error(error, path, path) from error


def included_name(over: str, output: Path | None) -> str:
    """Return how YAML in `output` names a file to include; that is looked for in the working directory first.

    Raises `FilesError` if the file cannot be read.
    """
    path = Path(over)
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise FilesError(
            f"'{over}' cannot be included: {error.strerror or error}", hint="Name the YAML file that you submit."
        ) from error
    is_beside = output is None or Path(os.path.realpath(output.parent)) == Path.cwd()
    return over if is_beside else str(path.absolute())


def advice_yaml(advice: RequestAdvice, *, over: str = "") -> str:
    """Return the YAML that applies an advice, with a comment that tells where each value comes from.

    `over` is a configuration that the text includes, so that it wins over values that this one sets itself.
    """
    return "\n".join(_advice_lines(advice, over)) + "\n"


def suggestion_yaml(advice: RequestAdvice, suggestion: LabelSuggestion, changes: Sequence[SuggestedValue]) -> str:
    """Return the YAML of some changes of one label, in few lines and without comments."""
    values = ", ".join(f"{value.key}: {_value_text(value)}" for value in changes)
    line = f"{_scalar(suggestion.label)}: {{{values}}}"
    section = advice.sections[suggestion.label]
    return f"{section}:\n  {line}" if section else line


def _advice_lines(advice: RequestAdvice, over: str) -> Iterator[str]:
    names = ", ".join(f"{opened.card.id} ({_comment(opened.card.name)})" for opened in advice.runs)
    yield f"# Requests from {count_noun(len(advice.runs), 'run')}: {names}; margin {advice.margin:g}."
    yield f"# They would have saved {advice.savings}." if advice.changed else "# No request is to be changed."
    if over:
        yield "# Submit this file."
        yield f"includeConfigs: {_scalar(over)}"
    else:
        yield "# Include this file: 'includeConfigs: FILE'. Values that the including file sets itself win."
    for section in (*PART_SECTIONS, ""):
        these = [each for each in advice.suggestions if advice.sections[each.label] == section]
        yield from _section_lines(section, these, advice, over=bool(over))


def _section_lines(
    section: str, suggestions: Sequence[LabelSuggestion], advice: RequestAdvice, *, over: bool
) -> Iterator[str]:
    indent = "  " if section else ""
    if section and any(each.changes for each in suggestions):
        yield f"{section}:"
    for each in suggestions:
        if not each.changes:
            yield f"{indent}# {_comment(each.label)}: {each.why_unchanged}"
            continue
        yield f"{indent}{_scalar(each.label)}:" + (f"  # {_guess(each)}" if each.is_guess else "")
        for value in each.changes:
            yield f"{indent}  {value.key}: {_value_text(value)}  # {describe_value(value)}"
            origin = advice.written.get((each.label, value.key))
            if origin is not None and not over:
                yield f"{indent}  # {_comment(str(origin))} sets {value.key} itself, and wins over an included file"


def _guess(suggestion: LabelSuggestion) -> str:
    return f"a guess: {count_noun(suggestion.successes, 'attempt')} succeeded so far"


def describe_value(value: SuggestedValue) -> str:
    """Describe where a suggested value comes from, in a line."""
    before = "nothing" if value.requested is None else _amount(value.key, value.requested)
    measured = _amount(value.key, value.measured)
    if value.basis is Basis.BOUND:
        origin = f"{count_noun(value.bounds, 'job')} ran out of {measured} and never succeeded; twice that lower bound"
    else:
        origin = f"{_STATISTICS[value.basis]} of {count_noun(value.samples, 'attempt')} {measured}"
    if value.exceeding:
        origin += f"; {count_noun(value.exceeding, 'job')} used more and would be retried"
    return f"{before} before; {origin}"


def _amount(key: str, value: float) -> str:
    if key == "requestMemory":
        return f"{value / MIB:.4g} MiB"
    if key == "requestWalltime":
        return _clock(value)
    return f"{value:.3g} processors" if value != 1 else "1 processor"


def _value_text(value: SuggestedValue) -> str:
    if value.key == "requestMemory":
        return str(round(value.suggested / MIB))
    if value.key == "requestWalltime":
        return f'"{_clock(value.suggested)}"'
    return str(round(value.suggested))


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def _scalar(text: str) -> str:
    """Return a YAML scalar that is this very text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    # JSON's escapes of characters beyond the basic plane are two surrogates, which YAML refuses.
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def _comment(text: str) -> str:
    """Return text for a comment, in one line."""
    return text if text.isprintable() else json.dumps(text)
