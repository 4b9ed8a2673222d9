"""Prepares a run and hands it over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from longshore.app.handover import Submitted, hand_over
from longshore.app.prepare import prepare
from longshore.app.teller import Keeping, Teller
from longshore.world.registry import forget, reserve_id


def submit(path: Path, *, options: Mapping[str, str], sets: tuple[str, ...], tell: Teller) -> Submitted:
    """Prepare a run and hand it over.

    Parameters
    ----------
    path
        The user's file.
    options
        Values of named options, per key of ``bps_cmdline``.
    sets
        ``KEY=VALUE`` of the option ``--set``.
    tell
        Takes notes and progress.

    Raises
    ------
    LongshoreError
        The run could not be prepared or was not taken; nothing is left behind.
    """
    keeping = Keeping(tell)
    # The moment is that of the id, so that two runs of one second have two names and directories as well.
    run_id, moment = reserve_id(time.time())
    try:
        prepared = prepare(path, options=options, sets=sets, run_id=run_id, now=moment, tell=keeping)
    except BaseException:
        forget(run_id)
        raise
    return hand_over(prepared.ready, keeping)
