"""Turns an id of the schedd's into the directory of a run, which DAGMan's job has for its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from longshore.contract.context import RunPaths, Unreachable
from longshore.errors import UnreachableError
from longshore.services.htcondor.client import CondorClient
from longshore.services.htcondor.ids import CondorId

_ASKED: Final = ("Iwd", "LongshoreRun")


def directory_of(client: CondorClient, meant: CondorId) -> Path | None:
    """The directory of the run whose DAGMan is, or was, that job; ``None`` where it is none of ours.

    Parameters
    ----------
    client
        Talks to the schedd that is meant.
    meant
        The job.

    Raises
    ------
    ServiceError
        The schedd does not answer.
    """
    constraint = f"ClusterId == {meant.cluster} && LongshoreRun =!= undefined"
    if meant.qdate is not None:
        constraint += f" && QDate == {meant.qdate}"
    found = client.jobs(constraint, _ASKED)
    if isinstance(found, Unreachable):
        raise UnreachableError(f"which run '{meant.cluster}' is cannot be asked: {found.why}")
    ads = found or client.history(constraint, _ASKED)
    folders = (Path(str(ad["Iwd"])).parent for ad in ads if ad.get("Iwd"))
    return next((folder for folder in folders if RunPaths(folder).card.is_file()), None)
