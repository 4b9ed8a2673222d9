"""Reads from logs which outputs a job left not as they must be: HTCondor passes on an exit code alone."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from longshore.engine.policy.output_rules import judge_outputs, parse_findings
from longshore.errors import RunUnreadableError
from longshore.model.run.event import Ended
from longshore.services.htcondor.events.dag_jobs import DagJobs
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.events.parse_record import UNMET_OUTPUT
from longshore.services.htcondor.render.log_names import log_paths
from longshore.world.files.log_tail import read_tail

_FINDINGS: Final = re.compile(r"longshore: outputs: ((?:\d{1,9} (?:missing|stale|empty) ?)+)")


class OutputVerdicts:
    """Verdicts on the outputs of a submission's attempts."""

    def __init__(self, jobs: DagJobs) -> None:
        self._jobs = jobs

    def judge(self, end: Ended, phases: JobPhases) -> Ended:
        """Return the end of an attempt, with its verdict if it has the wrapper's exit code."""
        if end.exit != UNMET_OUTPUT or end.cause is None:
            return end
        try:
            job, table = self._jobs.own_number(end.j), self._jobs.table
            stored, label = table[job], table.label(job)
            paths, number = table.checked_outputs(job, stored), table.file_number(job, stored)
        except (RunUnreadableError, IndexError):
            return end
        cluster, start = phases.cluster_and_start(end.j, end.a)
        for log in log_paths(number, stored.name, label, cluster, start) if paths else ():
            lines = read_tail(self._jobs.run.root / log, 1) or ()
            # A long line is cut at its end.
            found = next((match for line in lines if (match := _FINDINGS.match(line))), None)
            if found is not None:
                findings = parse_findings(found[1])
                success = msgspec.structs.replace(end, exit=0, cause=None, reason=None, outputs=findings)
                return judge_outputs(success, table.settings(job).rules.check_outputs, paths)
        return end
