"""Logging setup: levels, and handlers for the terminal, files and JSON files, with BPS's options."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Self

from longshore.errors import UsageError
from longshore.model.wording import name_all

LOGGER: Final = logging.getLogger("longshore")
_ANNOUNCE_AFTER_S: Final = 1.0
"""Seconds after which a stage is announced; shorter stages stay silent."""
_LEVEL_WORD: Final = "level_word"
"""Attribute of a record with its level as printed."""
_LSST_LEVELS: Final = {"TRACE": 5, "VERBOSE": 15}
"""LSST's log levels beyond Python's own."""


class LogProgress:
    """Logs the progress of a use case: notes at once, stages when they take a while."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cancel_timer()

    def note(self, text: str) -> None:
        """Log a note for the user."""
        LOGGER.warning(text, extra={_LEVEL_WORD: "note"})

    def warn(self, text: str) -> None:
        """Log a warning about the user's files."""
        LOGGER.warning(text, extra={_LEVEL_WORD: "warning"})

    def stage(self, text: str) -> None:
        """Begin a stage that may take a while."""
        self._cancel_timer()
        if LOGGER.isEnabledFor(_LSST_LEVELS["VERBOSE"]):
            LOGGER.log(_LSST_LEVELS["VERBOSE"], text)
            return
        self._timer = threading.Timer(_ANNOUNCE_AFTER_S, LOGGER.info, (text + " ...",))
        self._timer.daemon = True
        self._timer.start()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()


class _ShortFormatter(logging.Formatter):
    """Formats ``longshore: message``, with the level if it is unusual."""

    def format(self, record: logging.LogRecord) -> str:
        word = {logging.WARNING: "note", logging.ERROR: "error"}.get(record.levelno, "")
        word = getattr(record, _LEVEL_WORD, word)
        return f"longshore: {word}: {record.getMessage()}" if word else f"longshore: {record.getMessage()}"


class _JsonFormatter(logging.Formatter):
    """Formats one JSON object a line."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._labels = labels

    def format(self, record: logging.LogRecord) -> str:
        time_text = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"time": time_text, "level": record.levelname, "name": record.name, "message": record.getMessage()}
        import json

        return json.dumps(fields | ({"labels": dict(self._labels)} if self._labels else {}))


def set_up_logging(
    *, levels: Sequence[str], long_lines: bool, files: Sequence[str], terminal: bool, labels: Sequence[str]
) -> None:
    """Set up logging for one run of the program.

    Raises `UsageError` when a level or label is invalid, or a file cannot be written.
    """
    for name, number in _LSST_LEVELS.items():
        logging.addLevelName(number, name)
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    LOGGER.setLevel(logging.INFO)
    for word in levels:
        component, equals, level = word.rpartition("=")
        _set_level(component if equals and component != "." else "" if component == "." else "longshore", level)
    lines = logging.Formatter("%(asctime)s %(levelname)s %(name)s - %(message)s") if long_lines else _ShortFormatter()
    if terminal:
        _add_handler(logging.StreamHandler(sys.stderr), lines)
    pairs = dict(_parse_label(label) for label in labels)
    for file in files:
        try:
            handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UsageError(f"the log file '{file}' cannot be written: {error.strerror}") from error
        _add_handler(handler, _JsonFormatter(pairs) if file.endswith(".json") else lines)


def _add_handler(handler: logging.Handler, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    logging.getLogger().addHandler(handler)


def _set_level(component: str, level: str) -> None:
    number = _LSST_LEVELS.get(level.upper(), logging.getLevelNamesMapping().get(level.upper()))
    if number is None:
        names = [*_LSST_LEVELS, "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
        raise UsageError(f"there is no log level '{level}'", hint=name_all(names))
    logging.getLogger(component or None).setLevel(number)


def _parse_label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"'{text}' is not KEY=VALUE", hint="For example: --log-label night=2026-11-20")
    return key, value
