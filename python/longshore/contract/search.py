"""A query for runs at a workload manager, wherever they were submitted, and its answer."""

from __future__ import annotations

import msgspec

from longshore.model.run.report import RunReport


class RunSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Search for runs.

    Attributes
    ----------
    reference
        An id of the workload manager; empty for all runs.
    user
        Name of their user; empty for all users.
    days
        Also runs that ended in the last so many days.
    everywhere
        Whether all queues of the workload manager are searched, or only that of this host.
    pass_thru
        Words for the workload manager, from ``--pass-thru``: a query in its own language, instead of `user`.
    runs_only
        Whether jobs that are no runs are left out.
    """

    reference: str = ""
    user: str = ""
    days: float = 0.0
    everywhere: bool = False
    pass_thru: str = ""
    runs_only: bool = True


class RemoteRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that a workload manager knows.

    Attributes
    ----------
    reports
        A report of each, from what the workload manager knows of it. Its path is that on the host of its submission.
    notes
        A note on each queue that did not answer.
    """

    reports: tuple[RunReport, ...] = ()
    notes: tuple[str, ...] = ()
