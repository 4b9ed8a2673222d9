"""What is looked for at a workload manager itself, whoever handed it over, and what it tells of what it has."""

from __future__ import annotations

import msgspec

from longshore.model.report import RunReport


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are meant.

    Attributes
    ----------
    reference
        An id of the manager's; empty for all runs.
    user
        Whose; empty for anybody's.
    days
        Also those that are over since so many days.
    everywhere
        Whether all queues of the manager are searched, or only that which is used from here.
    pass_thru
        What the manager is to look for, in its own language, instead of what is said by `user`.
    ours
        Whether only runs are meant, and not whatever else has that id.
    """

    reference: str = ""
    user: str = ""
    days: float = 0.0
    everywhere: bool = False
    pass_thru: str = ""
    ours: bool = True


class Sighted(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes
    ----------
    reports
        A report of each run, from what the manager knows of it; its path is that of the host it was handed over on.
    notes
        What to say of queues that did not answer.
    """

    reports: tuple[RunReport, ...] = ()
    notes: tuple[str, ...] = ()
