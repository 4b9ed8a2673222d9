"""Loads HTCondor's Python bindings, with the configuration that the environment names, or says why it cannot."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from longshore.errors import ServiceError

_OLDEST: Final = 25
_OLDEST_DAEMONS: Final = 24
"""Major version of HTCondor's daemons below which our DAGs do not run."""
_QUERY_S: Final = 20
_CONFIGS: Final = ("/etc/condor/condor_config", "/usr/local/etc/condor_config", "~condor/condor_config")
_NO_FILE: Final = frozenset({"ONLY_ENV", "/dev/null"})
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")

_loaded: dict[str, str | None] = {}
"""For which configuration the bindings were loaded."""


def bindings() -> Any:
    """The bindings, with the configuration that the environment names now.

    Raises
    ------
    ServiceError
        They are not installed, too old, or find no configuration.
    """
    given = os.environ.get("CONDOR_CONFIG")
    # Without one they would end this process, or go on without a pool.
    _require_configuration(given)
    fresh = "htcondor2" not in sys.modules
    try:
        import htcondor2
    except ImportError as error:
        raise ServiceError(
            f"the service 'htcondor' needs HTCondor's Python bindings: {error}",
            hint="They come with the extra 'htcondor': pip install 'longshore[htcondor]'.",
        ) from error
    finally:
        if given is None:
            # Importing them sets it where there is no file.
            os.environ.pop("CONDOR_CONFIG", None)
    version = digits(str(htcondor2.version()))
    if int(version.split(".")[0]) < _OLDEST:
        raise ServiceError(
            f"HTCondor's Python bindings are of version {version}, and the service 'htcondor' needs {_OLDEST} or later",
            hint="pip install 'longshore[htcondor]' brings them; daemons may be older than they are.",
        )
    anew = _loaded.get("config", given if fresh else None) != given
    if anew:
        # Whoever imported them first may have meant another pool.
        htcondor2.reload_config()
    if anew or "config" not in _loaded:
        # A collector that hangs would be waited for a minute at every question.
        htcondor2.param["QUERY_TIMEOUT"] = str(_QUERY_S)
    _loaded["config"] = given
    return htcondor2


def _require_configuration(given: str | None) -> None:
    if given in _NO_FILE:
        return
    if given is not None:
        if not Path(given).is_file():
            raise ServiceError(
                f"CONDOR_CONFIG names '{given}', and there is no such file",
                hint="Set it to the configuration of your pool, or unset it where HTCondor is installed.",
            )
        return
    if not any(Path(path).expanduser().is_file() for path in _there()):
        raise ServiceError(
            f"there is no configuration of HTCondor on this host: none of {', '.join(_CONFIGS)}, nor CONDOR_CONFIG",
            hint="Submit from an access point of a pool, or set CONDOR_CONFIG.",
        )


def _there() -> Iterator[str]:
    for path in _CONFIGS:
        # A host without a user of that name has nothing to expand.
        expanded = os.path.expanduser(path)  # noqa: PTH111
        if not expanded.startswith("~"):
            yield expanded


def too_old(version: str) -> str:
    """What to say of daemons that are too old for us; empty where they are not, or do not say.

    DAGMan 23.9 takes arguments and variables within a DAG for those of the syntax before version 7 and submits nothing
    (seen with 23.9.6, as in Debian 13); 25.14 does.
    """
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) >= _OLDEST_DAEMONS:
        return ""
    return f"HTCondor {version} is too old: its DAGMan cannot submit what is described within a DAG"


def digits(version: str) -> str:
    """The digits of one of HTCondor's long words for a version."""
    found = _VERSION.search(version)
    return found[0] if found else version


@contextmanager
def silence() -> Iterator[None]:
    """Keep what HTCondor's library prints by itself out of the output: that may be a document for programs."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:
        # There is no output that it could be in.
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        # The library keeps what it printed until it has more of it, or ends.
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
