"""The keys of minibatch in a configuration: a row each."""

from __future__ import annotations

from typing import Final

from longshore.config import value_types as vt
from longshore.config.keys import JOB, SITE, Key, KeyTable

TABLE: Final = KeyTable(
    "minibatch",
    {
        "settings": (
            Key(
                "minibatch",
                vt.CLOSED_MAP,
                JOB,
                "Settings of minibatch. A section of a label or cluster can have its own.",
                example={"nice": 10},
            ),
            Key(
                "minibatch.pollInterval",
                vt.DURATION_LIMIT,
                SITE,
                "Least time between two calls of mb-queue.",
                default=0.2,
            ),
            Key("minibatch.nice", vt.whole(0, 19), JOB, "Niceness of a job.", example=10),
            Key(
                "minibatch.spool",
                vt.STRING,
                SITE,
                "Directory of the queue, MINIBATCH_SPOOL of the programs.",
                example="/var/spool/minibatch",
            ),
        )
    },
    map="minibatch",
)
