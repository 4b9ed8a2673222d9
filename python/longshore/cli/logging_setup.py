"""Logging setup: levels, and handlers for the terminal, files and JSON files, with BPS's options."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Self

from longshore.errors import UsageError

LOGGER: Final = logging.getLogger("longshore")
_LONG_S: Final = 1.0
"""Seconds after which a stage is announced; shorter stages stay silent."""
_EXTRA: Final = {"TRACE": 5, "VERBOSE": 15}
"""LSST's log levels beyond Python's own."""


class LogProgress:
    """Logs the progress of a use case: notes at once, stages when they take a while."""

    def __init__(self) -> None:
        self._late: threading.Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_stage()

    def note(self, text: str) -> None:
        """Log a note for the user."""
        LOGGER.warning(text)

    def stage(self, text: str) -> None:
        """Begin a stage that may take a while."""
        self._end_stage()
        if LOGGER.isEnabledFor(_EXTRA["VERBOSE"]):
            LOGGER.log(_EXTRA["VERBOSE"], text)
            return
        self._late = threading.Timer(_LONG_S, LOGGER.info, (text + " ...",))
        self._late.daemon = True
        self._late.start()

    def _end_stage(self) -> None:
        if self._late:
            self._late.cancel()


class _Short(logging.Formatter):
    """Formats ``longshore: message``, with the level if it is unusual."""

    def format(self, record: logging.LogRecord) -> str:
        level = {logging.WARNING: "note: ", logging.ERROR: "error: "}.get(record.levelno, "")
        return f"longshore: {level}{record.getMessage()}"


class _Json(logging.Formatter):
    """Formats one JSON object a line."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._labels = labels

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"time": moment, "level": record.levelname, "name": record.name, "message": record.getMessage()}
        import json

        return json.dumps(fields | ({"labels": dict(self._labels)} if self._labels else {}))


def set_up_logging(
    *, levels: Sequence[str], long: bool, files: Sequence[str], terminal: bool, labels: Sequence[str]
) -> None:
    """Set up logging for one run of the program.

    Raises
    ------
    UsageError
        A level or label is invalid, or a file cannot be written.
    """
    for name, number in _EXTRA.items():
        logging.addLevelName(number, name)
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    LOGGER.setLevel(logging.INFO)
    for word in levels:
        component, equals, level = word.rpartition("=")
        _set_level(component if equals and component != "." else "" if component == "." else "longshore", level)
    lines = logging.Formatter("%(asctime)s %(levelname)s %(name)s - %(message)s") if long else _Short()
    if terminal:
        _add(logging.StreamHandler(sys.stderr), lines)
    pairs = dict(_pair(label) for label in labels)
    for file in files:
        try:
            handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UsageError(f"the log file '{file}' cannot be written: {error.strerror}") from error
        _add(handler, _Json(pairs) if file.endswith(".json") else lines)


def _add(handler: logging.Handler, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    logging.getLogger().addHandler(handler)


def _set_level(component: str, level: str) -> None:
    number = _EXTRA.get(level.upper(), logging.getLevelNamesMapping().get(level.upper()))
    if number is None:
        names = ", ".join([*_EXTRA, "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
        raise UsageError(f"there is no log level '{level}'", hint=f"There are {names}.")
    logging.getLogger(component or None).setLevel(number)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"'{text}' is not KEY=VALUE", hint="For example: --log-label night=2026-11-20")
    return key, value
