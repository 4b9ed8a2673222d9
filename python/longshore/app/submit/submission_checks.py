"""Checks that may refuse a run before it is submitted."""

from __future__ import annotations

import msgspec


class SubmissionChecks(msgspec.Struct, frozen=True, kw_only=True):
    """Checks of a configuration before its submission.

    With `strict`, any warning refuses the run. With `with_probe`, the workload manager is asked first, and a run that
    it does not take is refused. With `shares_outputs`, a live run of this user may write the same files.
    """

    strict: bool = False
    with_probe: bool = True
    shares_outputs: bool = False
