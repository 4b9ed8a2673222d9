"""The table of keys of the service `sge`, apart because looks read it without the service."""

from __future__ import annotations

from typing import Final

from longshore.config import value_types as vt
from longshore.config.keys import JOB, SITE, Key, KeyTable
from longshore.services.batch.settings import kit_keys

# fmt: off
TABLE: Final = KeyTable("Grid Engine", {
    "map": (
        Key("sge", vt.MAP, JOB,
            "Settings of Grid Engine. The maps of a label or cluster and of the site are merged key by key, "
            "the former first; null cancels a key.",
            example={"bin": "/opt/sge/bin/lx-amd64", "root": "/opt/sge", "mem_resource": "h_vmem",
                     "parallelEnvironment": "smp"}),
        *kit_keys("sge", "Grid Engine", listing="qstat"),
        Key("sge.bin", vt.STRING, SITE,
            "Folder of its programs (qsub, qstat, qhost, qacct, qdel, qconf, qalter); by default that on PATH.",
            example="/opt/sge/bin/lx-amd64"),
        Key("sge.root", vt.STRING, SITE, "SGE_ROOT of every call; by default that of the environment.",
            example="/opt/sge"),
        Key("sge.cell", vt.STRING, SITE,
            "SGE_CELL of every call; by default that of the environment, else Grid Engine's own.",
            example="default"),
        Key("sge.cluster", vt.STRING, SITE,
            "Name of the cluster, SGE_CLUSTER and SGE_CLUSTER_NAME of every call; by default that of the "
            "environment.", example="p6444"),
        Key("sge.cpu_resource", vt.STRING, JOB,
            "Resource that gets requestCpus, such as cpu_r: -l cpu_r=2. Without a name, it is not requested.",
            example="cpu_r"),
        Key("sge.mem_resource", vt.STRING, JOB,
            "Resource that gets requestMemory in MB, such as h_vmem. Without a name, it is not requested. A "
            "resource of the type MEMORY gets the unit M.", example="h_vmem"),
        Key("sge.tmp_resource", vt.STRING, JOB,
            "Resource that gets requestDisk in MB, such as tmp_r. Without a name, it is not requested.",
            example="tmp_r"),
        Key("sge.memoryPer", vt.choice("slot", "job"), JOB,
            "What an amount of mem_resource is for: slot (the default; requestMemory is divided by the slots "
            "of a job), or job.", example="slot"),
        Key("sge.parallelEnvironment", vt.STRING, JOB,
            "Parallel environment of jobs with more than one processor: -pe NAME CPUS. Its slots must be on "
            "one machine.", example="smp"),
        Key("sge.nodeCount", vt.POSITIVE, JOB,
            "Number of hosts of a job, 1 by default. Each has requestCpus slots and requestMemory; the command "
            "starts on one of them.", example=2),
        Key("sge.nodesEnvironment", vt.STRING, JOB,
            "Parallel environment of jobs and pilots on several hosts. Its allocation_rule must be the number "
            "of processors on each host. Pilots also need control_slaves TRUE.", example="mpi4"),
        Key("sge.hard", vt.STRINGS, JOB,
            "Options of qsub behind -hard, which queues must fulfil, such as -l arch=lx-amd64.",
            example="-l arch=lx-amd64"),
        Key("sge.soft", vt.STRINGS, JOB, "Options of qsub behind -soft, which queues may fulfil, such as -q fast.q.",
            example="-q fast.q"),
        Key("sge.default_prio", vt.whole(-1023, 1024), JOB,
            "Priority of jobs, from -1023 to 0; operators may give up to 1024. 0 by default.", example=-100),
        Key("sge.priority", vt.whole(-1023, 1024), JOB,
            "Priority of jobs, instead of default_prio and use_priority. --backend-options sets it.", example=-50),
        Key("sge.use_priority", vt.SWITCH, SITE,
            "Whether waiting jobs get a priority from their urgency: default_prio on the longest chain, less "
            "for jobs that have time.", example=True),
    ),
}, map="sge")
# fmt: on
