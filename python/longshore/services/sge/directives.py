"""The ``#$`` lines of a script, and names of jobs (pure functions)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final

from longshore.batch.scripts.job_spec import JobSpec
from longshore.contract.batch import Urgency
from longshore.services.sge.options import options

_CLOSE: Final = str.maketrans({":": ";", "@": "a", "/": "_", "\\": "_", "*": "_", "?": "_"})
"""Signs that no name may have, and close ones; those of patterns have none."""
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._;+=-]+")


def directives(job: JobSpec) -> Iterator[str]:
    """Return the options of a job, without ``#$``."""
    # Inherited variables are already selected: qsub sees no others. Its own paths know no quotes and may not have
    # colons, so the script opens its output and enters its folder itself.
    yield from (f'-N "{job.name}"', "-S /bin/sh", "-V", "-wd /", "-j y", "-o /dev/null", "-w e")
    yield f"-r {'y' if job.is_engine else 'n'}"
    if job.array:
        yield f"-t 1-{job.array}"
    limit = job.batch.request.walltime_s
    if limit and job.warning_s:
        # USR1 at the soft limit, KILL at the hard one (queue_conf(5): s_rt).
        yield f"-l s_rt={max(1, int(limit) - job.warning_s)}"
    yield from options(job, slack_s(job.batch.urgency) if job.batch.urgency else None)


def slack_s(urgency: Urgency) -> float:
    """Return the seconds until the latest start that does not delay the end of the run."""
    return urgency.end_at - urgency.pressure_s - time.time()


def plain_name(name: str) -> str:
    """Return a name that Grid Engine and its patterns accept; its first sign is a letter."""
    plain = _ILLEGAL.sub("_", name.translate(_CLOSE))
    return plain if plain[:1].isalpha() else f"j{plain}"
