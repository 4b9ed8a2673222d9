"""Renders the attempts of a run as comma-separated values: a row per attempt (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from longshore.model.run.attempt import Attempt
from longshore.model.run.moment import format_timestamp
from longshore.model.tasks.task import DataId
from longshore.model.workflow.request import Request

Cell: TypeAlias = str | int | float | None

COLUMNS: Final = (
    *("run", "job", "label", "attempt", "state", "cause", "reason", "exit_code", "signal", "host", "wms_id"),
    *("submitted_at", "started_at", "ended_at", "wait_s", "run_s", "cpu_s", "peak_memory_b"),
    *("requested_cpus", "requested_memory_b", "requested_disk_b", "requested_walltime_s"),
    *("granted_cpus", "granted_memory_b", "staged_in_b", "staged_in_s", "staged_out_b", "staged_out_s"),
    *("data_id", "log"),
)
"""Names of the columns, which stay; new ones are added at the end. What is unknown is empty."""
_ROWS: Final = 2000
"""Rows encoded together."""
_QUOTED: Final = re.compile('[",\r\n]')
_FORMULA: Final = re.compile(r"['=+\-@\t\r]")
"""First characters of a formula, and the apostrophe that says that a text is none."""


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt with what the tables of its run say of its job."""

    attempt: Attempt
    job: str
    label: str
    request: Request
    data_id: DataId
    log: str | None = None
    """Path of its log, relative to the run directory."""


def render_attempts(run: str, rows: Iterable[AttemptRow]) -> Iterator[bytes]:
    """Yield the text of a table of attempts, in UTF-8.

    A text that a spreadsheet could take for a formula has an apostrophe in front, and so has one that begins with an
    apostrophe: without its first apostrophe, each text is the original one.
    """
    yield ",".join(COLUMNS).encode() + b"\n"
    identity = _text(run)
    rest = iter(rows)
    while lines := [_line(identity, row) for row in islice(rest, _ROWS)]:
        # A name that is no UTF-8 must not end the export.
        yield "".join(lines).encode("utf-8", "backslashreplace")


def _line(run: str, row: AttemptRow) -> str:
    attempt, request, granted, staged = row.attempt, row.request, row.attempt.granted, row.attempt.staged
    texts: Sequence[str | None] = (row.job, row.label)
    cells: tuple[Cell, ...] = (
        attempt.number,
        attempt.state.value,
        attempt.cause.value if attempt.cause else None,
        _text(attempt.reason) if attempt.reason else None,
        attempt.exit_code,
        attempt.signal,
        _text(attempt.host) if attempt.host else None,
        _text(attempt.wms_id) if attempt.wms_id else None,
        format_timestamp(attempt.submitted_at, exact=True),
        format_timestamp(attempt.started_at, exact=True),
        format_timestamp(attempt.ended_at, exact=True),
        attempt.wait_s,
        attempt.run_s,
        attempt.cpu_s,
        attempt.peak_memory_b,
        request.cpus,
        request.memory_b,
        request.disk_b,
        request.walltime_s,
        *((granted.cpus, granted.memory_b) if granted else (None, None)),
        *((staged.bytes_in, staged.in_s, staged.bytes_out, staged.out_s) if staged else (None, None, None, None)),
        _text(_json(row.data_id)) if row.data_id else None,
        _text(row.log) if row.log else None,
    )
    begin = [run, *[_text(text or "") for text in texts]]
    return ",".join([*begin, *["" if cell is None else str(cell) for cell in cells]]) + "\n"


def _text(text: str) -> str:
    """Return the cell of a text: quoted if that is necessary, and no formula."""
    if _FORMULA.match(text):
        text = f"'{text}"
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED.search(text) else text


_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def _json(data_id: DataId) -> str:
    try:
        return _encode(dict(data_id)).decode()
    except UnicodeEncodeError:
        # Imported late, as few data IDs have such a text.
        import json

        return json.dumps(dict(data_id))
