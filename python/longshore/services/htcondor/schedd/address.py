"""Address of the schedd of a run: ``wms/where.json``."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.system.atomic import write_atomically
from longshore.system.reading import read_file

NAME: Final = "htcondor"
"""Name of the service."""
WHERE: Final = PurePosixPath("wms", "where.json")


class ScheddAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Schedd and pool of a run; empty for those of the host."""

    schedd: str = ""
    pool: str = ""


def client_of(run: RunPaths) -> CondorClient:
    """Return a client of the schedd of a run."""
    try:
        where = msgspec.json.decode(read_file(run.root / WHERE), type=ScheddAddress)
    except (OSError, *DECODE_ERRORS):
        where = ScheddAddress()
    return CondorClient(schedd=where.schedd, pool=where.pool)


def write_address(run: RunPaths, address: ScheddAddress) -> None:
    """Write the address of the schedd of a run."""
    write_atomically(run.root / WHERE, msgspec.json.encode(address) + b"\n", below=run.root)
