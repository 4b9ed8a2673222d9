"""Reads which outputs a job left not as they must be: HTCondor passes on an exit code alone.

Of a failure by its outputs, the wrapper tells in the job's log; of a success with a stale or empty one, in a record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

import msgspec

from longshore.engine.policy.output_rules import judge_outputs, parse_findings
from longshore.errors import RunUnreadableError
from longshore.model.event import Ended
from longshore.model.workflow import OutputCheck
from longshore.services.htcondor.events.dag_jobs import DagJobs
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.events.parse_record import UNMET_OUTPUT
from longshore.services.htcondor.render.log_names import log_paths
from longshore.system.reading import read_tail, read_with_status

OUTPUT_RECORDS: Final = PurePosixPath("wms", "outputs")
"""Folder of a run directory with a record per success that left an output stale or empty: ``<cluster>.<start>``."""
_MAX_RECORD_B: Final = 1 << 20
_NAME: Final = re.compile(r"(\d{1,10})\.(\d{1,9})", re.ASCII)
_RECORD: Final = re.compile(
    rb'\{(?P<values>"cluster":(\d{1,10}),"start":(\d{1,9}),"out":"((?:\d{1,9} (?:stale|empty) ?)+)"),'
    rb'"again":\{(?P=values)\}\}\n'
)
"""Form of a record: its values twice, so that a changed value is found."""
_FINDINGS: Final = re.compile(r"longshore: outputs: ((?:\d{1,9} (?:missing|stale|empty) ?)+)")


class OutputVerdicts:
    """Verdicts on the outputs of a submission's attempts."""

    def __init__(self, jobs: DagJobs) -> None:
        self._jobs = jobs

    def judge(self, end: Ended, phases: JobPhases) -> Ended:
        """Return the end of an attempt, with the wrapper's verdict if there is one."""
        is_success = end.cause is None and end.exit == 0
        is_unmet = end.cause is not None and end.exit == UNMET_OUTPUT
        if not (is_unmet or (is_success and self.recorded_clusters)):
            return end
        cluster, start = phases.cluster_and_start(end.j, end.a)
        if is_success and cluster not in self.recorded_clusters:
            return end
        try:
            job, table = self._jobs.own_number(end.j), self._jobs.table
            stored, label = table[job], table.label(job)
            paths, number = table.checked_outputs(job, stored), table.file_number(job, stored)
            check = table.settings(job).rules.check_outputs
        except (RunUnreadableError, IndexError):
            return end
        if is_success:
            # With `fresh`, the wrapper would have made it a failure.
            told = self._read_record(cluster, start) if check is OutputCheck.EXISTS else ""
            return judge_outputs(msgspec.structs.replace(end, outputs=parse_findings(told)), check, paths)
        for log in log_paths(number, stored.name, label, cluster, start) if paths else ():
            lines = read_tail(self._jobs.run.root / log, 1) or ()
            # A long line is cut at its end.
            found = next((match for line in lines if (match := _FINDINGS.match(line))), None)
            if found is not None:
                findings = parse_findings(found[1])
                success = msgspec.structs.replace(end, exit=0, cause=None, reason=None, outputs=findings)
                return judge_outputs(success, check, paths)
        return end

    @cached_property
    def recorded_clusters(self) -> AbstractSet[int]:
        """Clusters with records of their successes; listed once, after the log was opened."""
        folder = self._jobs.run.root / OUTPUT_RECORDS
        try:
            names = [] if folder.is_symlink() else os.listdir(folder)
        except OSError:
            return frozenset()
        return frozenset(int(found[1]) for found in map(_NAME.fullmatch, names) if found)

    def _read_record(self, cluster: int, start: int) -> str:
        """Findings on a success; empty without a record, or where it has another form."""
        try:
            text, _ = read_with_status(self._jobs.run.root / OUTPUT_RECORDS / f"{cluster}.{start}", max_b=_MAX_RECORD_B)
        except OSError:
            return ""
        found = _RECORD.fullmatch(text)
        is_own = found is not None and (int(found[2]), int(found[3])) == (cluster, start)
        return found[4].decode() if found is not None and is_own else ""
