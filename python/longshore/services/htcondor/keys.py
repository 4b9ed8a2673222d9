"""The table of keys of the service `htcondor`, apart because looks read it without the service."""

from __future__ import annotations

from typing import Final

from longshore.config import value_types as vt
from longshore.config.keys import JOB, ROOT, RUN, SITE, Key, KeyTable

# fmt: off
TABLE: Final = KeyTable("HTCondor", {
    "all jobs": (
        Key("nodeset", vt.TEXT, JOB, "Set of nodes to which jobs are bound (HTCondor).", example="jdoe_set",
            bps=True),
        Key("releaseExpr", vt.TEXT, JOB, "Condition that releases a held job, as an expression of HTCondor.",
            example="HoldReasonCode == 13", bps=True),
        Key("executeMachinesPattern", vt.TEXT, RUN,
            "Names of the machines whose largest memory is the limit when no memoryLimit is given, as a "
            "regular expression (HTCondor).", default=".*worker.*", bps=True),
        Key("overwriteJobFiles", vt.FLAG, JOB,
            "Whether a new attempt of a job overwrites the previous attempt's output (HTCondor).", default=True,
            bps=True),
        Key("profile.condor", vt.MAP, JOB,
            "Lines of a job's submit description (HTCondor): a plain key is a command, a key with + in front "
            "an attribute of the job.", example={"requirements": 'Machine != "node17"'}, bps=True),
        Key("htcondor", vt.CLOSED_MAP, JOB,
            "Settings of HTCondor at this site; the service reads the whole map, and it is never searched.",
            example={"schedd": "submit.example.org"}),
        Key("htcondor.maxJobs", vt.JOBS_BY_NAME, SITE,
            "Number of jobs of each category that DAGMan keeps in the queue at once, by category.",
            example={"heavy": 20}),
        Key("htcondor.pool", vt.STRING, SITE,
            "Host of the pool's collector, if not the one in HTCondor's configuration here.",
            example="pool.example.org"),
        Key("htcondor.schedd", vt.STRING, SITE, "Name of the schedd for submissions, if not the one of this host.",
            example="submit.example.org"),
    ),
    "final job": (
        Key("finalJob.overwriteJobFiles", vt.FLAG, ROOT,
            "Whether a new attempt of a job overwrites the previous attempt's output (HTCondor).", default=False,
            bps=True),
    ),
    "nodes for the run": (
        Key("provisionResources", vt.FLAG, RUN, "Whether to start nodes beside the run (HTCondor).", default=False,
            bps=True),
        Key("provisioning", vt.MAP, RUN, "How nodes are started for the run (HTCondor)."),
        Key("provisioning.provisioningNodeCount", vt.COUNT, RUN, "Number of nodes to start.", default=10, bps=True),
        Key("provisioning.provisioningMaxIdleTime", vt.COUNT_S, RUN,
            "Time after which a node without work ends, in seconds.", default=900, bps=True),
        Key("provisioning.provisioningCheckInterval", vt.COUNT_S, RUN,
            "Time between checks for more nodes, in seconds.", default=600, bps=True),
        Key("provisioning.provisioningMaxWallTime", vt.WALLTIME, RUN,
            "Run time limit of a node; required to start nodes.", example="2-00:00:00", bps=True),
        Key("provisioning.provisioningQueue", vt.TEXT, RUN,
            "Queue of the nodes. Sites differ, so there is no default.", example="long", bps=True),
        Key("provisioning.provisioningAccountingUser", vt.TEXT, RUN,
            "Account of the nodes. Sites differ, so there is no default.", example="survey:developers", bps=True),
        Key("provisioning.provisioningPlatform", vt.TEXT, RUN,
            "Name of the site for the program that starts nodes. Sites differ, so there is no default.",
            example="campus", bps=True),
        Key("provisioning.provisioningExtraOptions", vt.TEXT, RUN, "More options of the program that starts nodes.",
            default="", bps=True),
        Key("provisioning.provisioningScript", vt.TEXT, RUN,
            "The script that starts nodes for as long as the run lasts.",
            default=(
                "#!/bin/bash\n"
                "set -e\n"
                "set -x\n"
                "while true; do\n"
                "    ${CTRL_EXECUTE_DIR}/bin/allocateNodes.py --auto --account {provisioningAccountingUser} \\\n"
                "        --node-count {provisioningNodeCount} --maximum-wall-clock {provisioningMaxWallTime} \\\n"
                "        --glidein-shutdown {provisioningMaxIdleTime} --queue {provisioningQueue} "
                "--nodeset {nodeset} \\\n"
                "        {provisioningExtraOptions} {provisioningPlatform}\n"
                "    sleep {provisioningCheckInterval}\n"
                "done\n"
            ), bps=True),
        Key("provisioning.provisioningScriptConfig", vt.TEXT, RUN, "Configuration of the program that starts nodes.",
            default=(
                'config.platform["{provisioningPlatform}"].user.name="${USER}"\n'
                'config.platform["{provisioningPlatform}"].user.home="${HOME}"\n'
            ), bps=True),
        Key("provisioning.provisioningScriptConfigPath", vt.TEXT, RUN,
            "Path of that configuration; an existing file is kept.", default="${HOME}/.lsst/condor-info.py",
            bps=True),
    ),
    "run": (
        Key("wmsConfig", vt.FREE_MAP, RUN, "Settings of DAGMan for the run (HTCondor)."),
        Key("wmsConfig.DAGMAN_MANAGER_JOB_APPEND_GETENV", vt.SCALAR, RUN,
            "Environment variables that DAGMan's own job inherits beside its usual ones; TRUE is all.",
            default="TRUE", bps=True),
        Key("wmsConfig.DAGMAN_GENERATE_SUBDAG_SUBMITS", vt.SCALAR, RUN,
            "Whether the submit files of DAGs inside the DAG are made when those begin.", default=True, bps=True),
    ),
}, map="htcondor", bps_default=True)
# fmt: on
