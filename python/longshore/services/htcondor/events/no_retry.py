"""Says by which rule of its submit description HTCondor did not try a job again."""

from __future__ import annotations

from longshore.engine.policy.retry import BadEnds, RetryRules, decide_retry, make_retry_rules
from longshore.model.event import Ended, Failed
from longshore.model.states import Cause
from longshore.services.htcondor.events.dag_jobs import DagJobs
from longshore.services.htcondor.events.parse_record import AttemptEnd


class NoRetryReasons:
    """Reasons why jobs of a submission were not tried again; the first use reads its jobs."""

    def __init__(self, jobs: DagJobs) -> None:
        self._jobs = jobs

    def of(self, job: int, end: AttemptEnd, attempts: int) -> str:
        """Return the rule; empty if the rules of the run would have had it tried again."""
        settings = self._jobs.table.settings(self._jobs.own_number(job))
        rules = make_retry_rules(settings, retries_on_lost=0, capacity=None)
        return explain_no_retry(end, attempts, rules)


def explain_no_retry(end: AttemptEnd, attempts: int, rules: RetryRules) -> str:
    """Return the rule by which a job is not tried again after an end; empty if it would be."""
    ended = Ended(j=0, a=attempts, exit=end.exit, signal=end.signal, cause=end.cause, reason=end.reason)
    # Only the number of all attempts is known: each had the same end, as far as its budget goes.
    own = end.cause in rules.own_causes
    ends = BadEnds(
        tries=attempts,
        spent_ooms=attempts if own and end.cause is Cause.OOM else 0,
        spent_overtimes=attempts if own and end.cause is Cause.WALLTIME else 0,
    )
    decision = decide_retry(ended, bad_ends=ends, rules=rules)
    return decision.why if isinstance(decision, Failed) else ""
