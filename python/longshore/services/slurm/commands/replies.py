"""What sbatch answers, and what each of its errors means."""

from __future__ import annotations

import re
from typing import Final

from longshore.batch.submit_replies import SubmitOutcome, SubmitReplies

REPLIES: Final = SubmitReplies(
    accepted=re.compile(r"(?:Submitted batch job )?([0-9]{1,18})(?:;\S+| on cluster \S+)?"),
    errors=(
        # A slow reply may still come; what a broken connection had brought is there soon.
        (SubmitOutcome.UNSURE, "timed out"),
        (SubmitOutcome.BROKEN, "Connection reset|Transport endpoint|Zero Bytes were transmitted"),
        (SubmitOutcome.UNSURE, "Unexpected message received|Header lengths are longer"),
        (SubmitOutcome.UNSURE, "Communication connection failure"),
        # No controller was reached, or no configuration names one.
        (
            SubmitOutcome.UNREACHABLE,
            (
                r"Unable to contact slurm controller|Connection refused|DNS SRV lookup failed"
                r"|failed to fetch (remote )?config|Could not establish a configuration source"
                r"|Unable to (load|process) configuration|Unable to establish controller"
                r"|Unable to (resolve|establish control machine)|getaddrinfo\(\) failed|No route to host"
                r"|Network is unreachable"
            ),
        ),
        (
            SubmitOutcome.TOO_LARGE,
            (
                r"submit limit|QOSMax\w*Submit|AssocMax\w*Submit|AssocGrp\w*Submit|Grp\w*Submit\w*Limit|MaxJobCount"
                r"|too many jobs"
            ),
        ),
        (
            SubmitOutcome.THROTTLED,
            (
                r"AssocMax\w*|AssocGrp\w*|temporarily unable to accept job|Resource temporarily unavailable"
                r"|connect failure|Address already in use|Slurm backup controller in standby mode"
                r"|currently unable to|Protocol authentication error|Munge"
            ),
        ),
        (
            SubmitOutcome.HOPELESS,
            (
                r"Invalid (partition|qos|account|wckey|license|feature|generic resource|job array|node name"
                r"|trackable resource)|Invalid --|Requested reservation is invalid|Requested time limit is invalid"
                r"|Requested node configuration is not available|Memory specification can ?not be satisfied"
                r"|Node count specification invalid|More processors requested than permitted"
                r"|(unrecognized|invalid) option|does not look like a batch script|Access/permission denied"
                r"|not permitted to use this (partition|account|qos)"
            ),
        ),
    ),
)
