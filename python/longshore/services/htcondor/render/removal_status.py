"""Retries of jobs that a person removes (``retryOn: {operator: true}``): lines of the DAG and their POST script.

DAGMan retries a node for any failure, but a job has its other retries in its own cluster. The POST script tells them
apart: it reads in DAGMan's log why the job was removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from longshore.model.workflow import JobSettings

SCRIPT: Final = "removed-status"
NO_RETRY: Final = 201
"""Exit status of the script after any other bad end; DAGMan does not retry it."""
REMOVALS: Final = "$(removals:0)"
"""Number of removals so far, in submit descriptions."""
TEXT: Final = f"""\
#!/bin/sh
# Run by DAGMan when a job has ended that runs again if a person removed it. Arguments: exit code of the job, its number
# at the schedd, and the exit code that ends the whole run, if there is one. Only status 202 is a retry.
case $1 in
0 | "${{3-none}}") exit "$1" ;;
esac
awk -v "cluster=${{2%%.*}}" '
    found {{
        removed = !/evaluated to TRUE|longshore cancel|OtherJobRemoveRequirements|DAG Removed/
        found = 0
    }}
    /^009 \\(/ {{
        split(substr($2, 2), id, ".")
        found = id[1] + 0 == cluster + 0
    }}
    END {{ exit !removed }}
' run.dag.nodes.log && exit 202
exit {NO_RETRY}
"""


def removal_retries(settings: JobSettings) -> int:
    """Return how many removals by a person are retried; 0 where that is not wanted."""
    on, matched = settings.rules.retry_on, settings.rules.retries_on_match
    retries = settings.number_of_retries if matched is None else matched
    return retries if on is not None and on.operator else 0


def has_removal_retries(settings: Iterable[JobSettings]) -> bool:
    """Whether any job is retried after a removal by a person."""
    return any(map(removal_retries, settings))


def node_lines(settings: JobSettings) -> str:
    """Return the lines of a node, with ``{node}`` for its name; empty where removals are not retried."""
    if not (retries := removal_retries(settings)):
        return ""
    code = settings.attributes.get("abortOnValue")
    return (
        f"RETRY {{node}} {retries} UNLESS-EXIT {NO_RETRY}\n"
        f"SCRIPT POST {{node}} {SCRIPT} $RETURN $JOBID{'' if code is None else f' {code}'}\n"
        'VARS {node} removals="$(RETRY)"\n'
    )
