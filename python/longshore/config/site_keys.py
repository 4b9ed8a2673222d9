"""The table of keys of site profiles, apart because the operators of sites write them."""

from __future__ import annotations

from typing import Final

from longshore.config import value_types as vt
from longshore.config.keys import ALL_BUT_BPS, BATCH, ENGINES, PROFILE, SITE, Key, KeyTable

# fmt: off
TABLE: Final = KeyTable("Sites", {
    "profile of a site": (
        Key("title", vt.STRING, PROFILE, "A line of text about the site, shown by site list.",
            example="The campus cluster"),
        Key("inherits", vt.STRINGS, PROFILE,
            "The site, or list of sites, whose profile this one extends; its own keys win.", example="slurm-cluster"),
        Key("hosts", vt.LINES, PROFILE,
            "Patterns of host names that use this site when no computeSite is given. They are not inherited.",
            example=["login*.campus.example.org"]),
        Key("disabled", vt.NONEMPTY, PROFILE,
            "Why the site cannot be used now; submit, ping and lint refuse it with this reason. null enables a "
            "site that inherits from a disabled one.", example="moves to another building until Monday"),
        Key("service", vt.STRING, SITE, "The workload manager of this site's jobs.", example="slurm",
            bps="wmsServiceClass"),
        Key("account", vt.TEXT, SITE, "Account to charge by default; accountingGroup overrides it.", example="survey",
            bps="accountingGroup", users=(*BATCH, "htcondor", "bps")),
        Key("limits", vt.CLOSED_MAP, PROFILE, "Ceilings of the site: users can set lower values, never higher ones."),
        Key("limits.cpus", vt.POSITIVE, PROFILE, "Largest number of processors of one job.", example=64),
        Key("limits.memory", vt.SIZE_LIMIT, PROFILE, "Largest memory of one job, in MB or with a unit.",
            example="256 GiB"),
        Key("limits.walltime", vt.DURATION_LIMIT, PROFILE, "Longest run time of one job, as in requestWalltime.",
            example="2-00:00:00"),
        Key("limits.queued", vt.POSITIVE, PROFILE, "Largest number of jobs of a run that are submitted and wait.",
            example=2000, users=(*BATCH, "bps")),
        Key("limits.running", vt.POSITIVE, PROFILE, "Largest number of jobs of a run that run at once.", example=500,
            users=(*BATCH, "local", "bps")),
        Key("limits.arraySize", vt.POSITIVE, PROFILE, "Largest number of jobs in one array.", example=1000,
            users=(*BATCH, "bps")),
        Key("limits.submitRate", vt.RATE, PROFILE,
            "Largest rate of submissions: a number per second, or such as 10/s, 30/min, 500/h.", example="30/min",
            users=(*BATCH, "bps")),
        Key("limits.perUser", vt.CLOSED_MAP, PROFILE,
            "Ceilings over all runs of a user whose engines share a host: jobs, of those that are submitted and not "
            "over, and cpus, of the processors that they ask for together.", users=ENGINES),
        Key("limits.perUser.jobs", vt.POSITIVE, PROFILE,
            "Largest number of jobs of all runs that are submitted and not over.", example=5000),
        Key("limits.perUser.cpus", vt.POSITIVE, PROFILE,
            "Largest number of processors that these jobs ask for together.", example=2000),
        Key("limits.pollFloor", vt.DURATION_LIMIT, PROFILE,
            "Shortest interval between two queries about jobs, as in requestWalltime; users can query less "
            "often, not more.", example=30, users=(*BATCH, "bps")),
        Key("resources", vt.MAP, SITE, "Resources for all jobs, for a site that is one machine.",
            example={"cpus": 8, "memory": "16 GiB"}, users=("local", "bps")),
        Key("partitions", vt.MAPS, SITE, "Table of the partitions or queues of the site, preferred ones first.",
            example=[{"name": "short", "walltime": "1:00:00"}, {"name": "long"}], users=(*BATCH, "bps")),
        Key("partitions[].name", vt.PLAIN_NONEMPTY, SITE, "Name of the partition or queue.", example="short"),
        Key("partitions[].nodes", vt.POSITIVE, SITE, "Largest number of its machines that one job can have.",
            example=4),
        Key("partitions[].cpus", vt.POSITIVE, SITE, "Processors of one of its machines.", example=64),
        Key("partitions[].memory", vt.SIZE, SITE, "Memory of one of its machines, in MB or with a unit.",
            example="256 GiB"),
        Key("partitions[].disk", vt.SIZE, SITE, "Disk of one of its machines, in MB or with a unit.", example="1 TiB"),
        Key("partitions[].walltime", vt.DURATION, SITE, "Longest run time of its jobs, as in requestWalltime.",
            example="1:00:00"),
        Key("partitions[].resources", vt.NATURALS_BY_NAME, SITE,
            "Amount of each other resource of one of its machines, such as gpus.", example={"gpus": 4}),
        Key("partitions[].default", vt.SWITCH, SITE, "Whether it is the partition of jobs without any other choice.",
            example=True),
        Key("partitions[].exclusive", vt.SWITCH, SITE, "Whether a job has the machine to itself.", example=True),
        Key("partitions[].account", vt.STRING, SITE, "Account for jobs in this partition.", example="survey"),
        Key("partitions[].qos", vt.STRING, SITE, "Quality of service for jobs in this partition.", example="normal"),
        Key("partitions[].features", vt.LINES, SITE, "Features of its machines, which jobs can request.",
            example=["haswell", "ssd"]),
        Key("qos", vt.STRING, SITE, "Default quality of service.", example="normal", users=("slurm", "bps")),
        Key("directives", vt.LINES, SITE,
            "Lines for the head of each job's script, in the workload manager's syntax; null cancels inherited "
            "lines.", example=["--constraint=skylake"], users=(*BATCH, "htcondor")),
        Key("setup", vt.CLOSED_MAP, SITE,
            "Shell lines: under submit before jobs are submitted, under job in each job before its command."),
        Key("setup.submit", vt.LINES, SITE, "Lines that run on the submitting host.", example=[". /etc/profile"],
            users=BATCH),
        Key("setup.job", vt.LINES, SITE,
            "Lines that run in each job before its command; a failing line ends the job.", example=["ulimit -c 0"],
            users=ALL_BUT_BPS),
        Key("modules", vt.LINES, SITE, "Environment modules that each job loads before its set-up lines.",
            example=["gcc/13"], users=ALL_BUT_BPS),
        Key("inheritEnvironment", vt.INHERITED, SITE,
            "Environment variables of the submitting user that jobs inherit: all, none, or patterns of names. "
            "Names that look like secrets, and variables of schedulers, are left out unless a pattern names "
            "them.", example=["HOME", "DATA_*"], users=ALL_BUT_BPS),
        Key("scratch", vt.STRING, SITE,
            "Parent directory of each attempt's temporary directory, TMPDIR, on the host of the job. On a "
            "cluster, $NAME is a variable of that host.", example="/scratch/$USER", users=(*BATCH, "local", "bps")),
        Key("fileSystem", vt.choice("shared", "scratch", "transfer"), SITE,
            "How jobs access files: shared, where they lie; scratch, copied by the job to a scratch directory "
            "and back; transfer, if HTCondor transfers them.", example="scratch", users=ALL_BUT_BPS),
        Key("transferCommand", vt.CLOSED_MAP_OR_TEXT, SITE,
            "Command that transfers a file from {source} to {target}, instead of cp; or a map with one for "
            "inputs, one for outputs, and one per scheme of URLs. With fileSystem: scratch.",
            example="rsync {source} {target}", users=ENGINES),
        Key("transferCommand.in", vt.STRING, SITE, "Command that copies an input to the scratch directory.",
            example="rsync {source} {target}"),
        Key("transferCommand.out", vt.STRING, SITE,
            "Command that copies an output to a temporary name beside its target, from where it is published.",
            example="rsync {source} {target}"),
        Key("transferCommand.urls", vt.STRINGS_BY_NAME, SITE,
            "Command per scheme, such as s3, for files at URLs; those of other schemes are not transferred.",
            example={"s3": "aws s3 cp {source} {target}"}),
        Key("container", vt.STRINGS, SITE, "Prefix to each job's command, such as apptainer exec image.sif.",
            example="apptainer exec image.sif", users=(*BATCH, "htcondor")),
        Key("templates", vt.STRINGS_BY_NAME, SITE,
            "File per template name, which replaces the service's template; a relative path starts at the "
            "profile.", example={"batch.sh": "batch.sh.j2"}, users=ENGINES),
        Key("capabilities", vt.LINES, SITE, "Features of the site, such as gpu or internet.",
            example=["gpu", "internet"]),
        Key("resourceGraph", vt.MAP_OR_TEXT, SITE,
            "Resources of the site for the choice of a site: nested vertices (type, count, size, with, "
            "subsystems), or files in JSON Graph Format.", example="campus.json"),
        Key("siteState", vt.FACTS, SITE,
            "Numbers and texts of the site for the choice of a site, such as cost_per_node_hour.",
            example={"cost_per_node_hour": 1.5}),
        Key("umask", vt.UMASK, SITE,
            "Permissions that files of runs do not get, in octal: 0002 lets a group write. "
            "Others never may, and the owner always may.", example="0002"),
        Key("group", vt.STRING, SITE, "Name of the group of run directories.", example="astro"),
    ),
})
# fmt: on
