"""The errors of Longshore, divided by who must act, with the exit status of each.

::

    LongshoreError                 1   (never raised itself)
    +-- UsageError                 2   the command line is at fault
    +-- ConfigError                3   the YAML is at fault
    |   +-- UndefinedVariableError 3   ... it names a variable that nothing defines
    |   +-- ReferenceCycleError    3   ... a variable is defined by itself
    +-- ServiceError               4   the workload manager cannot be used
    |   +-- UnknownServiceError    4   ... there is none of that name
    |   +-- UnreachableError       4   ... it said nothing; trying again may help
    |       +-- SubmissionUncertainError  4
    +-- RunNotFoundError           5   no run of that name
    |   +-- RunUnreadableError     5   ... or its directory is torn, or too new for us
    +-- SubmissionRefusedError     6   the workload manager, or we, said no
    +-- PreparationError           7   the run cannot be built
        +-- GraphCommandError     its  ... the command that makes its graph failed; its own status
        +-- GraphError             7   ... the graph is wrong
        |   +-- CycleError         7   ...... it has a ring
        +-- RequestError           7   ... a job asks for more than there is
        +-- FilesError             7   ... a file or directory is missing, in the way, or cannot be written
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from longshore.origin import Origin


class ErrorDetail(NamedTuple):
    """One of the things that are wrong, where all of them are told at once.

    Attributes
    ----------
    code
        Kind of the error that it would be by itself.
    message, origin, hint
        As for all errors.
    label
        Label of the jobs that it is about; empty where it is about none.
    jobs
        Number of these jobs.
    """

    code: str
    message: str
    origin: Origin | None = None
    hint: str = ""
    label: str = ""
    jobs: int = 0


class LongshoreError(Exception):
    """An error whose text is meant for the user.

    Parameters
    ----------
    message
        What is wrong, with the thing named in quotes.
    origin
        Where it was written, if it was written anywhere.
    hint
        The way out, as a whole sentence.
    """

    exit_status: int = 1
    code: ClassVar[str] = "unexpected"
    details: tuple[ErrorDetail, ...] = ()
    """All that is wrong, where that was looked for all at once; the message is then that of the first."""

    def __init__(self, message: str, *, origin: Origin | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.origin = origin
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.origin}: " if self.origin else ""
        return f"{place}{self.message}" + (f"\n{self.hint}" if self.hint else "")


class UsageError(LongshoreError):
    """The command line cannot be understood."""

    exit_status = 2
    code = "usage"


class ConfigError(LongshoreError):
    """The configuration is wrong."""

    exit_status = 3
    code = "configuration"


class UndefinedVariableError(ConfigError):
    """A value uses ``{name}`` and nothing defines it."""

    code = "undefined_variable"


class ReferenceCycleError(ConfigError):
    """A value is defined in terms of itself."""

    code = "reference_ring"


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
    """A workload manager stopped answering while it was given a run: nobody knows whether it took it."""

    code = "unsure"


class RunNotFoundError(LongshoreError):
    """No run has that id, name or path."""

    exit_status = 5
    code = "run_not_found"


class RunUnreadableError(RunNotFoundError):
    """A run directory is there but cannot be read."""

    code = "run_unreadable"


class SubmissionRefusedError(LongshoreError):
    """The run was prepared but could not be handed over."""

    exit_status = 6
    code = "submission_refused"


class PreparationError(LongshoreError):
    """The run cannot be built."""

    exit_status = 7
    code = "preparation"


class GraphCommandError(PreparationError):
    """The command that makes, or updates, a graph failed; its exit status is ours.

    Parameters
    ----------
    message, origin, hint
        As for all errors.
    exit_status
        What the command ended with.
    """

    code = "graph_command"

    def __init__(self, message: str, *, exit_status: int, origin: Origin | None = None, hint: str = "") -> None:
        super().__init__(message, origin=origin, hint=hint)
        self.exit_status = exit_status


class GraphError(PreparationError):
    """The graph of tasks or jobs is wrong."""

    code = "graph"


class CycleError(GraphError):
    """The graph has a ring; `ring` spells it out, first node repeated at the end."""

    code = "cycle"

    def __init__(self, ring: Sequence[str], *, origin: Origin | None = None, hint: str = "") -> None:
        self.ring = tuple(ring)
        super().__init__(
            "the graph has a cycle: " + " -> ".join(f"'{name}'" for name in ring), origin=origin, hint=hint
        )


class RequestError(PreparationError):
    """A job asks for more than the service can ever give."""

    code = "request"


class FilesError(PreparationError):
    """A file or directory is missing, in the way, or cannot be written."""

    code = "files"


class OptionHelpRequest(Exception):  # noqa: N818 - somebody asked, and nothing is wrong
    """Options of a service ask which options there are; the text says it."""
