"""Longshore loads workflows onto compute sites: layered YAML in, jobs on a workload manager out.

The Python interface::

    import longshore

    run = longshore.submit("survey.yaml", set={"requestMemory": "2 GiB"})
    run.wait(progress=True)
    run.jobs().to_pandas()

Names are imported on their first use, so that ``import longshore`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in `typing`, whose import would be most of what importing this module takes."""

if TYPE_CHECKING:
    from typing import Any

    from longshore.client.functions import open, prepare, runs, submit  # noqa: A004 - a run is opened
    from longshore.client.run import Run
    from longshore.client.workflow import Workflow
    from longshore.errors import LongshoreError
    from longshore.model.states import JobState

__version__ = "0.1.0"

_PLACES = {
    "JobState": "longshore.model.states",
    "LongshoreError": "longshore.errors",
    "Run": "longshore.client.run",
    "Workflow": "longshore.client.workflow",
    "open": "longshore.client.functions",
    "prepare": "longshore.client.functions",
    "runs": "longshore.client.functions",
    "submit": "longshore.client.functions",
}
__all__ = ["JobState", "LongshoreError", "Run", "Workflow", "__version__", "open", "prepare", "runs", "submit"]


def __getattr__(name: str) -> Any:
    """Import a name of the interface on its first use."""
    if name not in _PLACES:
        raise AttributeError(f"module 'longshore' has no attribute '{name}'")
    found = getattr(import_module(_PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the names of the interface."""
    return sorted(__all__)
