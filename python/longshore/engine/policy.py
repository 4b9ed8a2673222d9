"""Whether a job whose attempt ended badly is tried again."""

from __future__ import annotations

import msgspec

from longshore.model.event import Ended, Failed, Lost, Retry
from longshore.model.state import Cause


class RetryRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one profile.

    Attributes
    ----------
    retries
        Attempts after the first.
    unless_exit
        Exit codes that trying again cannot mend.
    retries_on_lost
        Attempts after one that was lost; a budget of its own.
    """

    retries: int = 0
    unless_exit: tuple[int, ...] = ()
    retries_on_lost: int = 1


def judge(end: Ended | Lost, *, tries: int, lost: int, rules: RetryRules) -> Retry | Failed:
    """Decide about a job after a bad end.

    Parameters
    ----------
    end
        How its newest attempt ended.
    tries
        Bad ends since its budget was fresh, this one included.
    lost
        How many of these were lost.
    rules
        The rules of its profile.
    """
    if isinstance(end, Lost):
        if lost <= rules.retries_on_lost:
            return Retry(j=end.j, a=end.a + 1, cause=Cause.LOST)
        return Failed(j=end.j, why=f"lost {lost} times, and retryOnLost is {rules.retries_on_lost}: {end.why}")
    cause = end.cause or Cause.EXIT
    if end.exit is not None and end.exit in rules.unless_exit:
        return Failed(j=end.j, why=f"exit code {end.exit} is in retryUnlessExit")
    if tries - lost <= rules.retries:
        return Retry(j=end.j, a=end.a + 1, cause=cause)
    why = f": {end.reason}" if end.reason else ""
    return Failed(j=end.j, why=f"no attempt left: numberOfRetries is {rules.retries}{why}")
