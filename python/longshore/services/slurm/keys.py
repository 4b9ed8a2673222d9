"""The table of keys of the service `slurm`, apart because looks read it without the service."""

from __future__ import annotations

from typing import Final

from longshore.config import value_types as vt
from longshore.config.keys import JOB, SITE, Key, KeyTable
from longshore.services.batch.settings import kit_keys

# fmt: off
TABLE: Final = KeyTable("Slurm", {
    "map": (
        Key("slurm", vt.MAP, JOB,
            "Settings of Slurm. The maps of a label or cluster and of the site are merged key by key, the "
            "former first; null cancels a key.", example={"qos": "normal", "features": "haswell"}),
        *kit_keys("slurm", "Slurm", listing="squeue"),
        Key("slurm.config", vt.STRING, SITE, "Slurm's configuration file, SLURM_CONF of every call.",
            example="/etc/slurm/slurm.conf"),
        Key("slurm.clusters", vt.STRING, SITE,
            "Cluster to submit to and to query, where one installation has several.", example="main"),
        Key("slurm.diskGres", vt.NONEMPTY, SITE,
            "Generic resource that reserves requestDisk on the node, such as tmpspace; without it, requestDisk "
            "is --tmp, which only chooses nodes.", example="tmpspace"),
        Key("slurm.use_nice", vt.SWITCH, SITE,
            "Whether waiting jobs get a nice value from their urgency, which runs then share.", example=True),
        Key("slurm.time_origin", vt.STRING, SITE,
            "Time of the nice value 0; by default that of PriorityParameters of the cluster, else 2023-01-01 "
            "00:00:00.", example="2023-01-01 00:00:00"),
        Key("slurm.nice_factor", vt.GROWTH, SITE,
            "Growth of the nice value per second; by default that of PriorityParameters of the cluster, else 1.",
            example=1),
        Key("slurm.lib_slurm", vt.STRING, SITE, "Ignored, with a note: Longshore uses Slurm's programs.",
            example="libslurm.so"),
        Key("slurm.partition", vt.TEXTS, JOB,
            "Partition, or several separated by commas; queue is the same for all workload managers.",
            example="long", series=True),
        Key("slurm.qos", vt.TEXT, JOB, "Quality of service.", example="high", series=True),
        Key("slurm.reserv", vt.TEXTS, JOB, "Reservation that jobs use.", example="night", series=True,
            spellings=("reservation",)),
        Key("slurm.features", vt.TEXTS, JOB,
            "Features that nodes must have; a list means all of them, a text is an expression of sbatch's "
            "--constraint.", example=["haswell", "ssd"], series=True, spellings=("constraint",)),
        Key("slurm.prefer", vt.TEXTS, JOB,
            "Features that nodes should have, where such nodes are free; as in features (Slurm 22.05 and later).",
            example="fast", series=True),
        Key("slurm.nodes", vt.TEXTS, JOB, "Names of nodes that jobs must have.", example="n[1-4]", series=True,
            spellings=("nodelist",)),
        Key("slurm.excludes", vt.TEXTS, JOB, "Names of nodes that jobs must not have.", example=["n7", "n8"],
            series=True, spellings=("exclude",)),
        Key("slurm.gres", vt.TEXTS, JOB,
            "Generic resources per node, in sbatch's syntax; replaces those of requestResources.",
            example="gpu:a100:2", series=True),
        Key("slurm.licence", vt.TEXTS, JOB, "Licences, beside those of requestResources.", example="matlab:1",
            spellings=("licences", "license", "licenses")),
        Key("slurm.wckey", vt.TEXT, JOB, "Key for accounting.", example="survey", series=True),
        Key("slurm.cpu", vt.WHOLE_OR_TEXT, JOB,
            "Processors per task, instead of requestCpus; a retry does not change it.", example=4, series=True),
        Key("slurm.mem", vt.WHOLE_OR_TEXT, JOB,
            "Memory per node in sbatch's syntax, instead of requestMemory; 0 is all. A retry does not raise it.",
            example=0, series=True),
        Key("slurm.memPerCpu", vt.WHOLE_OR_TEXT, JOB,
            "Memory for each processor in sbatch's syntax, instead of requestMemory. A retry does not raise it.",
            example="2G", series=True),
        Key("slurm.memPerGpu", vt.WHOLE_OR_TEXT, JOB,
            "Memory for each gpu in sbatch's syntax, instead of requestMemory. A retry does not raise it.",
            example="16G", series=True),
        Key("slurm.tmp", vt.WHOLE_OR_TEXT, JOB, "Disk per node in sbatch's syntax, instead of requestDisk.",
            example="10G", series=True),
        Key("slurm.nodeCount", vt.WHOLE_OR_TEXT, JOB, "Number of nodes, or minimum and maximum: 2-4.", example=2,
            series=True),
        Key("slurm.tasks", vt.WHOLE_OR_TEXT, JOB, "Number of tasks that the launcher starts.", example=8,
            series=True),
        Key("slurm.tasksPerNode", vt.WHOLE_OR_TEXT, JOB, "Number of tasks on each node.", example=4, series=True),
        Key("slurm.launcher", vt.STRING, JOB,
            "What starts the command: srun, mpirun or mpiexec, once per task; or a prefix to the command.",
            example="srun"),
        Key("slurm.exclusive", vt.SWITCH, JOB, "Whether a job has its nodes to itself.", example=True),
        Key("slurm.nice", vt.WHOLE_OR_TEXT, JOB, "Fixed nice value; a larger one waits longer.", example=100),
        Key("slurm.priority", vt.WHOLE_OR_TEXT, JOB, "Fixed priority; only operators may request one.", example=1000),
        Key("slurm.mailUser", vt.STRING, JOB, "Recipient of mail, instead of mailTo.", example="jdoe@example.org"),
        Key("slurm.mailType", vt.TEXTS, JOB,
            "When mail is sent, in Slurm's words such as END,FAIL; instead of whenToMail.", example="END,FAIL"),
        Key("slurm.requeue", vt.SWITCH, JOB,
            "Whether Slurm, or a person with scontrol requeue, may put a job that runs back into the queue. "
            "Its attempt ends as preempted, and the run retries it.", example=False),
        Key("slurm.omit", vt.TEXTS, JOB, "Names of options to omit, such as mem or export.", example=["mem"]),
        Key("slurm.BB", vt.TEXTS, JOB,
            "Lines #BB for a burst buffer, each without #BB, behind the options in a job's script.",
            example=["create_persistent name=data capacity=1TB access=striped type=scratch"]),
        Key("slurm.DW", vt.TEXTS, JOB,
            "Lines #DW for a burst buffer, each without #DW, behind the options in a job's script.",
            example=["jobdw type=scratch capacity=10GB access_mode=striped"]),
        Key("slurm.sbatch", vt.TEXTS, JOB, "Raw options, after those of directives.",
            example=["--hint=nomultithread"]),
        Key("sbatch", vt.RAW_LINES, JOB,
            "Raw options of sbatch, each without #SBATCH, for the head of a job's script (Slurm); as in "
            "buildtest.", example=["-t 00:05", "-C haswell"]),
    ),
}, map="slurm")
# fmt: on
