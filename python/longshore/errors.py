"""The errors of Longshore, grouped by who must act, with exit status and origin, and how several are collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

import msgspec

# Origin of a value: file, line, column, and layer of the configuration.


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Place where a value was written.

    Attributes
    ----------
    file
        Path as the user gave it, or a name such as ``--set`` for a value in no file.
    line, column
        Counted from 1; 0 where the source has no lines.
    layer
        Name of the configuration layer, such as ``defaults``, ``site`` or ``user``; empty outside configuration.
    """

    file: str
    line: int = 0
    column: int = 0
    layer: str = ""

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


# The errors of Longshore, grouped by who must act, and the exit status of each.


class ErrorDetail(msgspec.Struct, frozen=True):
    """One of several errors that are reported together.

    Attributes
    ----------
    code
        Kind of the error.
    label
        Label of the jobs concerned; empty without jobs.
    jobs
        Number of these jobs.
    part
        As for `LongshoreError`.
    """

    code: str
    message: str
    origin: Origin | None = None
    hint: str = ""
    label: str = ""
    jobs: int = 0
    part: str | int | None = None


class LongshoreError(Exception):
    """An error with a message for the user.

    Parameters
    ----------
    message
        The problem, with the thing named in quotes.
    origin
        Place in the configuration, if any.
    hint
        The way out, a whole sentence.
    """

    exit_status: int = 1
    code: ClassVar[str] = "unexpected"
    details: tuple[ErrorDetail, ...] = ()
    """Every error of a check that finds several; the message is that of the first."""
    part: str | int | None = None
    """Part of the value at the origin that the error is about: its key, or the index of a character of its text."""

    def __init__(self, message: str, *, origin: Origin | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.origin = origin
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.origin}: " if self.origin else ""
        return f"{place}{self.message}" + (f"\n{self.hint}" if self.hint else "")


class UsageError(LongshoreError):
    """The command line is invalid."""

    exit_status = 2
    code = "usage"


class ConfigError(LongshoreError):
    """The configuration is wrong."""

    exit_status = 3
    code = "configuration"


class UndefinedVariableError(ConfigError):
    """A value uses an undefined variable."""

    code = "undefined_variable"


class ReferenceCycleError(ConfigError):
    """A value is defined in terms of itself."""

    code = "reference_ring"


class CodeRefusedError(ConfigError):
    """Code that the configuration names is needed, and the command only looks at the configuration.

    `what` is the quoted value that names it.
    """

    def __init__(self, what: str, why: str, *, origin: Origin | None, hint: str) -> None:
        super().__init__(f"{what} {why}", origin=origin, hint=hint)
        self.what = what


class ServiceError(LongshoreError):
    """A workload manager cannot be used."""

    exit_status = 4
    code = "service"


class UnknownServiceError(ServiceError):
    """No service has that name."""

    code = "unknown_service"


class UnreachableError(ServiceError):
    """A workload manager does not answer."""

    code = "unreachable"


class SubmissionUncertainError(UnreachableError):
    """A workload manager stopped answering during a submission, and may have accepted it."""

    code = "unsure"


class RunNotFoundError(LongshoreError):
    """No run has that id, name or path."""

    exit_status = 5
    code = "run_not_found"


class UnknownRunError(RunNotFoundError):
    """No run has that name."""


class RunNotMeantError(RunNotFoundError):
    """``@last`` is a run that the user may not mean, and the command would change it; `path` is its directory."""

    def __init__(self, message: str, *, path: str, origin: Origin | None = None, hint: str = "") -> None:
        self.path = path
        super().__init__(message, origin=origin, hint=hint)


class RunUnreadableError(RunNotFoundError):
    """A run directory exists but cannot be read."""

    code = "run_unreadable"


class RunPausedError(LongshoreError):
    """A run that a program waits for is paused, and goes on only when somebody unpauses it."""

    exit_status = 21
    code = "run_paused"


class SubmissionRefusedError(LongshoreError):
    """A prepared run was refused, by Longshore or by the workload manager."""

    exit_status = 6
    code = "submission_refused"


class PreparationError(LongshoreError):
    """The run cannot be built."""

    exit_status = 7
    code = "preparation"


class GraphCommandError(PreparationError):
    """The command that makes or updates a graph failed; its exit status becomes Longshore's."""

    code = "graph_command"

    def __init__(self, message: str, *, exit_status: int, origin: Origin | None = None, hint: str = "") -> None:
        super().__init__(message, origin=origin, hint=hint)
        self.exit_status = exit_status


class GraphError(PreparationError):
    """The graph of tasks or jobs is wrong."""

    code = "graph"


class CycleError(GraphError):
    """The graph has a cycle: the names in `ring`, the first repeated at the end."""

    code = "cycle"

    def __init__(self, ring: Sequence[str], *, origin: Origin | None = None, hint: str = "") -> None:
        self.ring = tuple(ring)
        super().__init__(
            "the graph has a cycle: " + " -> ".join(f"'{name}'" for name in ring), origin=origin, hint=hint
        )


class RequestError(PreparationError):
    """A job requests more than the service can ever give."""

    code = "request"


class FilesError(PreparationError):
    """A file or directory is missing, in the way, or cannot be written."""

    code = "files"


def error_type(codes: Iterable[str]) -> type[LongshoreError]:
    """Return the type of an error about several things at once, by the code of each.

    It is that of their code if they share one. Else it is the general type of what must be mended first: the
    configuration, the workload manager, or the run. So a kind of error has one exit status, whoever finds it.
    """
    found = {_TYPES.get(code, PreparationError) for code in codes}
    if len(found) == 1:
        return found.pop()
    return next(
        (each for each in (ConfigError, ServiceError) if any(issubclass(type_, each) for type_ in found)),
        PreparationError,
    )


_TYPES: Final[dict[str, type[LongshoreError]]] = {
    **{each.code: each for each in (ConfigError, UndefinedVariableError, ReferenceCycleError)},
    **{each.code: each for each in (ServiceError, UnknownServiceError, UnreachableError, SubmissionRefusedError)},
    **{each.code: each for each in (GraphError, RequestError, FilesError)},
    **{each.code: each for each in (UsageError, RunNotFoundError, RunUnreadableError)},
    CycleError.code: GraphError,
}
"""Error of each code of a problem."""


class OptionHelpRequest(Exception):  # noqa: N818 - a request, not an error
    """The user requests help on a service's options; the text is that help."""


# Errors that a decoder raises for damaged content; every place that decodes a file treats all of them alike.


DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, MemoryError)
"""Wrong content, bytes that are not UTF-8 (a `ValueError`), deep nesting, numbers and sizes that do not fit."""


# Collects the independent errors of a check, so that a user reads all of them at once.


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
