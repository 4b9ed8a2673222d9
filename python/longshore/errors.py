"""The errors of Longshore, grouped by who must act, and the exit status of each.

::

    LongshoreError                 1   (never raised itself)
    +-- UsageError                 2   the command line is at fault
    +-- ConfigError                3   the YAML is at fault
    |   +-- UndefinedVariableError 3   ... it uses an undefined variable
    |   +-- ReferenceCycleError    3   ... a variable is defined by itself
    |   +-- CodeRefusedError       3   ... it needs code that it names, and the command imports none
    +-- ServiceError               4   the workload manager cannot be used
    |   +-- UnknownServiceError    4   ... no service has that name
    |   +-- UnreachableError       4   ... it does not answer; a retry may help
    |       +-- SubmissionUncertainError
    |                              4   ...... and may have accepted the run
    +-- RunNotFoundError           5   no run has that name
    |   +-- RunNotMeantError       5   ... it may not be the run that is meant
    |   +-- RunUnreadableError     5   ... or its directory is damaged, or its format is newer
    +-- SubmissionRefusedError     6   the workload manager or Longshore refused the run
    +-- RunPausedError            21   the run that a program waits for is paused
    +-- PreparationError           7   the run cannot be built
        +-- GraphCommandError      *   ... the command that makes its graph failed, with that exit status
        +-- GraphError             7   ... the graph is wrong
        |   +-- CycleError         7   ...... it has a cycle
        +-- RequestError           7   ... a job requests more than the service has
        +-- FilesError             7   ... a file or directory is missing, in the way, or cannot be written
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from longshore.origin import Origin


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


class OptionHelpRequest(Exception):  # noqa: N818 - a request, not an error
    """The user requests help on a service's options; the text is that help."""
