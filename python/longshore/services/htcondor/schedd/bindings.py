"""HTCondor's Python bindings: loaded for an environment, and their exceptions, all of one class, told apart."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from longshore.errors import (
    LongshoreError,
    ServiceError,
    SubmissionRefusedError,
    SubmissionUncertainError,
    UnreachableError,
)

_OLDEST: Final = 25
_OLDEST_DAEMONS: Final = 24
"""Major version of HTCondor's daemons below which our DAGs do not run."""
_QUERY_S: Final = 20
_CONFIGS: Final = ("/etc/condor/condor_config", "/usr/local/etc/condor_config", "~condor/condor_config")
_NO_FILE: Final = frozenset({"ONLY_ENV", "/dev/null"})
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")

_loaded: dict[str, str | None] = {}
"""Configuration for which the bindings were loaded, under ``config``."""


def load_bindings() -> Any:
    """The bindings, with the environment's current configuration.

    Raises `ServiceError` if they are not installed, too old, or find no configuration.
    """
    config = os.environ.get("CONDOR_CONFIG")
    # Without a configuration the bindings would end this process, or continue without a pool.
    _require_configuration(config)
    is_first_import = "htcondor2" not in sys.modules
    try:
        import htcondor2
    except ImportError as error:
        raise ServiceError(
            f"the service 'htcondor' needs HTCondor's Python bindings: {error}",
            hint="They come with the extra 'htcondor': pip install 'longshore[htcondor]'.",
        ) from error
    finally:
        if config is None:
            # The import sets it if there is no file.
            os.environ.pop("CONDOR_CONFIG", None)
    version = version_number(str(htcondor2.version()))
    if int(version.split(".")[0]) < _OLDEST:
        raise ServiceError(
            f"HTCondor's Python bindings are of version {version}, and the service 'htcondor' needs {_OLDEST} or later",
            hint="pip install 'longshore[htcondor]' brings them; daemons may be older than they are.",
        )
    is_changed = _loaded.get("config", config if is_first_import else None) != config
    if is_changed:
        # The first import may have used another pool's configuration.
        htcondor2.reload_config()
    if is_changed or "config" not in _loaded:
        # By default every query waits a minute for a collector that hangs.
        htcondor2.param["QUERY_TIMEOUT"] = str(_QUERY_S)
    _loaded["config"] = config
    return htcondor2


def _require_configuration(config: str | None) -> None:
    if config in _NO_FILE:
        return
    if config is not None:
        if not Path(config).is_file():
            raise ServiceError(
                f"CONDOR_CONFIG names '{config}', and there is no such file",
                hint="Set it to the configuration of your pool, or unset it where HTCondor is installed.",
            )
        return
    if not any(Path(path).expanduser().is_file() for path in _config_paths()):
        raise ServiceError(
            f"there is no configuration of HTCondor on this host: none of {', '.join(_CONFIGS)}, nor CONDOR_CONFIG",
            hint="Submit from an access point of a pool, or set CONDOR_CONFIG.",
        )


def _config_paths() -> Iterator[str]:
    for path in _CONFIGS:
        # On a host without that user, the path stays unexpanded.
        expanded = os.path.expanduser(path)  # noqa: PTH111
        if not expanded.startswith("~"):
            yield expanded


def version_error(version: str) -> str:
    """Error message for daemons of an unsupported version; empty if supported or unknown.

    DAGMan 23.9 parses arguments and variables within a DAG in the syntax before version 7, and submits nothing (seen
    with 23.9.6, as in Debian 13); 25.14 submits.
    """
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) >= _OLDEST_DAEMONS:
        return ""
    return f"HTCondor {version} is too old: its DAGMan cannot submit what is described within a DAG"


def version_number(version: str) -> str:
    """The version number in HTCondor's long version string."""
    found = _VERSION.search(version)
    return found[0] if found else version


@contextmanager
def silence_stdout() -> Iterator[None]:
    """Discard what HTCondor's library prints: the standard output may be a document for programs."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        stdout = os.dup(1)
    except OSError:
        # Standard output is closed.
        yield
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 1)
        yield
    finally:
        # The library buffers its output.
        ctypes.CDLL(None).fflush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(devnull)


# Errors say who must act.


_REFUSED: Final = (
    "AUTHENTICATE:",
    "DENIED",
    "Failed to authenticate",
    "PERMISSION_DENIED",
    "not authorized",
    "No auth methods",
)
_ABSENT: Final = (
    "Failed to connect",
    "Failed communication",
    "Failed to fetch ads from",
    "Unable to locate",
    "unable to locate",
    "Can't find address",
    "communication error",
    "Connection refused",
    "timed out",
)
_PASSING: Final = re.compile(
    r"MAX_JOBS_SUBMITTED|MAX_JOBS_PER_OWNER|no space left|quota exceeded|disk is full|temporar(il)?y|try again"
    r"|shutting down|is draining|cannot allocate memory",
    re.IGNORECASE,
)
"""A condition of the schedd (``src/condor_schedd.V6/qmgmt.cpp``) or its host: it may take the same later."""
_COMMIT_FAILED: Final = ("Unable to commit",)
"""Messages of a schedd that went away during a submission, or refused at the commit."""


@contextmanager
def map_errors(daemon: str, *, request: str = "") -> Iterator[None]:
    """Raise exceptions of the bindings as `LongshoreError`.

    `daemon` names the daemon that the body talks to. `request` names what the body submits; empty for a query.
    """
    try:
        yield
    except LongshoreError:
        raise
    except Exception as error:
        # The bindings raise one class of their own for all failures, and others for invalid arguments.
        raise to_error(error, daemon, request) from error


def to_error(error: Exception, daemon: str, request: str) -> LongshoreError:
    """The `LongshoreError` for an exception of the bindings; parameters as in `map_errors`."""
    text = " ".join(str(error).split()) or type(error).__name__
    if any(word in text for word in _REFUSED):
        return ServiceError(
            f"{daemon} does not accept your identity: {text}",
            hint="'condor_ping -type schedd WRITE' shows how it identifies you. Daemons older than 24 want "
            "SEC_FS_ENFORCE_CHANNEL_BINDING = False at the client.",
        )
    if request and any(word in text for word in _COMMIT_FAILED):
        return SubmissionUncertainError(f"{daemon} could not commit {request}: {text}")
    if any(word in text for word in _ABSENT) or text.rstrip().endswith("errmsg="):
        # For a collector that rejects the user, the bindings only report no answer.
        return UnreachableError(
            f"{daemon} does not answer: {text}",
            hint="'condor_status -any' shows which daemons do, and 'condor_ping -type collector READ' whether it "
            "accepts your identity.",
        )
    if request and _PASSING.search(text):
        return SubmissionRefusedError(
            f"{daemon} does not take {request} for now: {text}",
            hint="That is no fault of the run. Nothing of it is submitted; try again when it has passed.",
        )
    if request:
        return SubmissionRefusedError(f"{daemon} does not take {request}: {text}")
    return ServiceError(f"{daemon} says: {text}")
