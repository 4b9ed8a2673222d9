"""The table of keys of the service `lsf`, apart because looks read it without the service."""

from __future__ import annotations

from typing import Final

from longshore.config import value_types as vt
from longshore.config.keys import JOB, SITE, Key, KeyTable
from longshore.services.batch.settings import kit_keys

# fmt: off
TABLE: Final = KeyTable("LSF", {
    "map": (
        Key("lsf", vt.MAP, JOB,
            "Settings of LSF. The maps of a label or cluster and of the site are merged key by key, the former "
            "first; null cancels a key.", example={"application": "sim", "memoryUnit": "GB"}),
        *kit_keys("lsf", "LSF", listing="bjobs"),
        Key("lsf.envdir", vt.STRING, SITE, "Folder of LSF's configuration, LSF_ENVDIR of every call.",
            example="/opt/lsf/conf"),
        Key("lsf.bjobsFormat", vt.choice("json", "text"), SITE,
            "What bjobs is asked for: json (the default; text is asked for where it cannot be read), or text, "
            "for versions without -json.", example="text"),
        Key("lsf.group", vt.STRING, SITE, "Job group of all jobs, bsub's -g.", example="/longshore"),
        Key("lsf.memoryUnit", vt.choice("MB", "KB", "GB", "TB"), JOB,
            "Unit of amounts in rusage, LSF_UNIT_FOR_LIMITS of the cluster: MB (the default), KB, GB or TB. "
            "ping compares the two.", example="GB"),
        Key("lsf.memoryPer", vt.choice("job", "host", "task", "none"), JOB,
            "What an amount in rusage is for: job (the default), host, task (the amount is divided), or none, "
            "for versions before 10.1.0.9.", example="host"),
        Key("lsf.hardMemory", vt.SWITCH, JOB,
            "Whether LSF itself ends a job above its memory: -M 2000MB! instead of -M 2000MB.", example=True),
        Key("lsf.selectMemory", vt.SWITCH, JOB,
            "Whether a job also asks for a host with that much free memory: select[mem>2000].", example=True),
        Key("lsf.nodeCount", vt.POSITIVE, JOB,
            "Number of hosts of a job, 1 by default. Each has requestCpus slots and requestMemory; the command "
            "starts on one of them.", example=2),
        Key("lsf.project", vt.STRING, JOB,
            "Project, bsub's -P; accountingGroup is the same for all workload managers.", example="survey"),
        Key("lsf.userGroup", vt.STRING, JOB, "Group of users, bsub's -G.", example="astro"),
        Key("lsf.application", vt.STRING, JOB, "Application profile, bsub's -app.", example="sim"),
        Key("lsf.serviceClass", vt.STRING, JOB, "Service class, bsub's -sla.", example="gold"),
        Key("lsf.hosts", vt.TEXT_OR_LIST, JOB, "Hosts or groups of hosts that jobs may use, bsub's -m.",
            example=["hostA", "groupB"]),
        Key("lsf.resource", vt.TEXT_OR_LIST, JOB, "More resource requirements, each an option -R of its own.",
            example=["select[avx512]"]),
        Key("lsf.priority", vt.INTEGER, JOB, "Priority among the user's own jobs, bsub's -sp.", example=50),
        Key("lsf.exclusive", vt.SWITCH, JOB, "Whether a job has its hosts to itself, bsub's -x.", example=True),
        Key("lsf.requeue", vt.SWITCH, JOB,
            "Whether LSF may start a job again by itself, bsub's -r. The job then ends as preempted, and the "
            "run retries it.", example=False),
        Key("lsf.bsub", vt.TEXT_OR_LIST, JOB, "Raw options, after those of directives.",
            example=["-alloc_flags smt4"]),
        Key("bsub", vt.RAW_LINES, JOB,
            "Raw options of bsub, each without #BSUB, for the head of a job's script (LSF); as in buildtest. "
            "It is an error on other services.", example=["-W 10", "-nnodes 1", "-P gen014ecpci"], exclusive=True),
    ),
}, map="lsf")
# fmt: on
