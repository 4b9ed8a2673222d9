"""Collects the independent errors of a check, so that a user reads all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from longshore.errors import ConfigError, ErrorDetail, GraphError, LongshoreError


class ErrorCollector:
    """Errors of a check, in order of their lines."""

    def __init__(self) -> None:
        self._errors: list[LongshoreError] = []

    def __bool__(self) -> bool:
        return bool(self._errors)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Note an error in the configuration or graph that the body raises, and go on after it."""
        try:
            yield
        except (ConfigError, GraphError) as error:
            self._errors.append(error)

    def raise_errors(self) -> None:
        """Raise all noted errors as one; it has the type of the first, and each is a detail."""
        if not self._errors:
            return
        # Only the first file has an order: its lines come first.
        file = _place(_details(self._errors[0])[0])[0]
        ordered = sorted(self._errors, key=lambda error: _sort_key(_details(error)[0], file))
        found = sorted(
            dict.fromkeys(detail for error in ordered for detail in _details(error)),
            key=lambda detail: _sort_key(detail, file),
        )
        error, first = ordered[0], found[0]
        if len(found) > 1:
            error.details = tuple(found)
            error.message = f"{first.message} (and {len(found) - 1} more)"
            error.origin, error.hint, error.part = first.origin, first.hint, first.part
        raise error


def _details(error: LongshoreError) -> Sequence[ErrorDetail]:
    alone = ErrorDetail(error.code, error.message, error.origin, error.hint, part=error.part)
    return error.details or (alone,)


def _place(detail: ErrorDetail) -> tuple[str, int, int]:
    origin = detail.origin
    return (origin.file, origin.line or 0, origin.column or 0) if origin else ("", 0, 0)


def _sort_key(detail: ErrorDetail, file: str) -> tuple[bool, str, int, int]:
    place = _place(detail)
    return (place[0] != file, *place)
