"""Takes up a run whose engine died."""

from __future__ import annotations

import msgspec

from longshore.app.runs import OpenRun
from longshore.model.submission import Submission


def resume(opened: OpenRun) -> Submission | None:
    """Start another engine for a run; ``None`` when it has nothing left to do.

    Raises
    ------
    SubmissionRefusedError
        Its engine is alive, or no other could be started.
    """
    submission = opened.service.resume(opened.run)
    # The run goes on as it was: what is recorded is a new engine's life, in the journal, and not a new submission.
    return msgspec.structs.replace(submission, id=opened.card.id) if submission else None
