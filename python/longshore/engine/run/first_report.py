"""Reads the events of a large run in another process when it is over, for a fast first report."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from longshore.contract.service import RunPaths
from longshore.rundir.journal import lives

_LEAST_B: Final = 16 * 2**20
"""Size of a journal of 30,000 to 50,000 jobs, of which a first report takes 0.6 s."""
_MOST_B: Final = 128 * 2**20
"""Size of a journal of 230,000 to 400,000 jobs. A report of these takes up to 240 MB of memory; more is not taken
unasked."""


def start_first_report(run: RunPaths) -> None:
    """Start a report of all jobs if the journal is large: it stores what later reports go on from.

    The run is over, and needs nothing of it: nobody waits for that process, and its failure has no effect. Where the
    engine is itself a job, a workload manager may end it with the job; the first report then takes its time as ever.
    """
    try:
        size = sum(path.stat().st_size for _, path in lives(run.journal))
        if not _LEAST_B <= size <= _MOST_B:
            return
        process = subprocess.Popen(
            # -P: files in the run directory must not pass for modules.
            [sys.executable, "-P", "-m", "longshore", "report", "--id", str(run.root), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return
    # It goes on without this process, as it should; `Popen` would complain about that.
    process.returncode = 0
