"""What sbatch answers, and what each of its errors means.

The texts are those of ``slurm_strerror`` (``src/common/slurm_errno.c`` of Slurm; those of 22.05 were seen), and the
reasons of limits that sbatch prints on a line before (https://slurm.schedmd.com/job_reason_codes.html). What begins
with ``sbatch: fatal:`` is decided by sbatch alone: unless its configuration or credential fails, it is about the
options of the job.

"Requested reservation is invalid" does not tell a wrong name from a reservation that is over or not made yet, so it is
no refusal of the request. The general text of a violated policy names no limit: where sbatch prints none before it, it
counts as the limit on submitted jobs, which passes.
"""

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
        (SubmitOutcome.UNSURE, "Communication connection failure|Message (send|receive) failure"),
        # No controller was reached, or no configuration names one.
        (
            SubmitOutcome.UNREACHABLE,
            (
                r"Unable to contact slurm controller|Connection refused|DNS SRV lookup failed"
                r"|failed to fetch (remote )?config|Could not establish a configuration source"
                r"|Unable to (load|process) configuration|Unable to establish controller"
                r"|Unable to (resolve|establish control machine)|getaddrinfo\(\) failed|No route to host"
                r"|Network is unreachable|Can't find an address, check slurm.conf"
            ),
        ),
        # A limit on one job, which only another request meets.
        (SubmitOutcome.REFUSED, r"(Assoc|QOS)M(ax|in)\w*Per(Job|Node)|QOSMin\w|(Assoc|QOS)MaxWall\w*"),
        (
            SubmitOutcome.TOO_LARGE,
            (
                r"submit limit|QOSMax\w*Submit|AssocMax\w*Submit|(Assoc|QOS)Grp\w*Submit|Grp\w*Submit\w*Limit"
                r"|MaxJobCount|too many jobs"
            ),
        ),
        (
            SubmitOutcome.THROTTLED,
            (
                r"temporarily unable to accept job|Resource temporarily unavailable|Unable to create job record"
                r"|connect failure|Address already in use|in standby mode|currently unable to|Rate limit exceeded"
                r"|Protocol authentication error|Munge|Invalid (authentication|job) credential|auth(/| )plugin"
                r"|(Authentication|Job) credential (expired|replayed|revoked)|Cannot unpack credential"
                r"|Error generating job credential|Token Generation failed|Invalid (user|group) id\b"
                r"|Unable to resolve (user|group) ID|submissions disabled|presently disabled|internal error"
                r"|I/O error writing script|Unable to connect to database|Database connection|shutting down"
            ),
        ),
        (
            SubmitOutcome.CLOSED,
            (
                r"Required partition not available|Partition in DOWN state|Partition is in use"
                r"|Requested partition configuration not available now|Required node not available"
                r"|Requested nodes are busy|(Assoc|QOS)(Max|Grp)\w*|breached requested QOS usage threshold"
                r"|Access denied to requested reservation|Requested reservation (is in use|not usable now)"
                r"|maintenance reservation|licenses? [\w ]*(unavailable|not available)|Burst Buffer resource limit"
                r"|Waiting for burst buffer|power not available|Max powered up nodes|PrologSlurmctld is still running"
                r"|Required ports are in use|No eligible clusters"
            ),
        ),
        (SubmitOutcome.UNEXPLAINED, "Requested reservation is invalid"),
        (
            SubmitOutcome.REFUSED,
            (
                r"^\s*sbatch: fatal:|\n\s*sbatch: fatal:"
                r"|Invalid (partition|qos|account|wckey|license|feature|generic resource|gres|job array|node name"
                r"|trackable resource|time|--|mcs_label|preferred feature|container id)|No partition specified"
                r"|Requested time limit is invalid|Time limit specification required|Job size specification needs"
                r"|Requested (node|topology) configuration is not available|Memory specification can ?not be satisfied"
                r"|Memory required by task is not available|(Node|CPU|Task) count specification invalid"
                r"|Task distribution specification invalid|Requested nodes not in this partition"
                r"|More processors requested than permitted|(unrecognized|invalid) option|ambiguous"
                r"|does not look like a batch script|Job script not specified|Pathname of a file"
                r"|Access/permission denied|not permitted to use this (partition|account|qos)"
                r"|Burst Buffer (request invalid|permission denied)|not supported on this system"
                r"|Unsupported|requires (an|one) argument|Job dependency problem|Circular job dependency"
            ),
        ),
    ),
)
