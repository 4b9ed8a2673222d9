"""The table of keys of runs of quantum graphs, apart because BPS decides them: they are in LSST's layer of defaults."""

from __future__ import annotations

from typing import Final

from longshore.config import value_types as vt
from longshore.config.keys import JOB, PAYLOAD, ROOT, RUN, Key, KeyTable

# fmt: off
TABLE: Final = KeyTable("Quantum graphs", {
    "payload": (
        Key("runInit", vt.FLAG, PAYLOAD, "Whether a job that initialises the output run comes before all others.",
            graphs=True, bps=True),
        Key("butlerConfig", vt.TEXT, PAYLOAD, "The Butler repository to work in.", example="/repo/main", bps=True),
        Key("inCollection", vt.TEXT, PAYLOAD, "Input collections, separated by commas.", example="LSSTCam/defaults",
            bps=True),
        Key("qgraphFile", vt.TEXT, RUN, "An existing quantum graph, used instead of making one.", example="run.qg",
            bps=True),
        Key("qgraphFileTemplate", vt.TEXT, RUN, "Name of the quantum graph's file in the run directory.",
            graphs="{uniqProcName}.qg", bps=True),
    ),
    "commands": (
        Key("defaultPreCmdOpts", vt.TEXT, RUN, "Options between a program and its subcommand, for all commands.",
            graphs="--long-log --log-level=VERBOSE", bps=True),
        Key("qgraphPreCmdOpts", vt.TEXT, RUN,
            "Options between program and subcommand of the command that makes the quantum graph.",
            graphs="{defaultPreCmdOpts}", bps=True),
        Key("updateQgraphPreCmdOpts", vt.TEXT, RUN,
            "Options between program and subcommand of the command that updates a given quantum graph.",
            graphs="{defaultPreCmdOpts}", bps=True),
        Key("initPreCmdOpts", vt.TEXT, RUN,
            "Options between program and subcommand of the job that initialises the output run.",
            graphs="{defaultPreCmdOpts}", bps=True),
        Key("runPreCmdOpts", vt.TEXT, RUN, "Options between program and subcommand of the jobs that run quanta.",
            graphs="{defaultPreCmdOpts}", bps=True),
        Key("extraQgraphOptions", vt.TEXT, RUN, "Options at the end of the command that makes the quantum graph.",
            graphs="", bps=True),
        Key("extraUpdateQgraphOptions", vt.TEXT, RUN,
            "Options at the end of the command that updates a given quantum graph.", graphs="", bps=True),
        Key("extraInitOptions", vt.TEXT, RUN, "Options at the end of the command that initialises the output run.",
            graphs="", bps=True),
        Key("extraRunQuantumOptions", vt.TEXT, RUN, "Options at the end of the commands that run quanta.", graphs="",
            bps=True),
        Key("extraAggregateOptions", vt.TEXT, RUN, "Options at the end of the command that gathers the results.",
            graphs="", bps=True),
        Key("pipetaskOutput", vt.TEXT, RUN,
            "The output collection, as an option of the command that makes the quantum graph.",
            graphs="-o {output}", bps=True),
        Key("pipetaskInput", vt.TEXT, RUN,
            "The input collections, as an option of the command that makes the quantum graph.",
            graphs="-i {inCollection}", bps=True),
        Key("pipetaskDataQuery", vt.TEXT, RUN,
            "The data query, as an option of the command that makes the quantum graph.",
            graphs='-d "{dataQuery}"', bps=True),
        Key("fileDistributionEndPoint", vt.TEXT, RUN, "Prefix to the path of the quantum graph in commands.",
            graphs="", bps=True),
        Key("createQuantumGraph", vt.TEXT, RUN,
            "The command that makes the quantum graph; runs when a run is prepared, without a shell.",
            graphs=(
                "${CTRL_MPEXEC_DIR}/bin/pipetask {qgraphPreCmdOpts} qgraph --butler-config {butlerConfig} "
                "{pipetaskInput} {pipetaskOutput} --output-run {outputRun} --pipeline {pipelineYaml} "
                "--save-qgraph {qgraphFile} --qgraph-datastore-records {pipetaskDataQuery} {extraQgraphOptions}"
            ), bps=True),
        Key("updateQuantumGraph", vt.TEXT, RUN,
            "The command that updates a given quantum graph for the new output run; runs when a run is "
            "prepared, without a shell.",
            graphs=(
                "${CTRL_MPEXEC_DIR}/bin/pipetask {updateQgraphPreCmdOpts} update-graph-run {inputQgraphFile} "
                "{outputRun} {qgraphFile} {extraUpdateQgraphOptions}"
            ), bps=True),
        Key("pipetask.pipetaskInit", vt.OPEN, ROOT, "Values for the job that initialises the output run.",
            graphs={"runQuantumCommand":
                "${CTRL_MPEXEC_DIR}/bin/pipetask {initPreCmdOpts} pre-exec-init-qbb {butlerConfig} "
                "{fileDistributionEndPoint}{qgraphFile} {extraInitOptions}"},
            holds=(JOB,)),
    ),
    "final job": (
        Key("finalJob", vt.MAP, ROOT, "The job that runs after all others, with its values.",
            graphs={"concurrencyLimit": "db_limit", "requestCpus": 16, "requestMemory": 32768, "retryUnlessExit": 2},
            holds=(JOB,)),
        Key("finalJob.whenRun", vt.choice("ALWAYS", "SUCCESS", "NEVER"), ROOT,
            "When it runs: ALWAYS, after failures too; SUCCESS, if all others succeeded; NEVER.", graphs="ALWAYS",
            bps=True),
        Key("finalJob.whenSetup", vt.STRING, ROOT, "When its files are made. Only NEVER has an effect.",
            graphs="NEVER", bps=True),
        Key("finalJob.implementation", vt.choice("JOB", "WORKFLOW"), ROOT, "Its kind. Only JOB is supported.",
            graphs="JOB", bps=True),
        Key("finalJob.finalPreCmdOpts", vt.TEXT, ROOT, "Options between program and subcommand of its commands.",
            graphs="{defaultPreCmdOpts}", bps=True),
        Key("finalJob.updateOutputChain", vt.TEXT, ROOT,
            "The option that adds the output run to the output collection; empty for none.",
            graphs="--update-output-chain", bps=True),
        Key("finalJob.command1", vt.TEXT, ROOT,
            "Its first command; command2 and so on follow, up to the first missing number. Empty commands are "
            "skipped.",
            graphs=(
                "${DAF_BUTLER_DIR}/bin/butler {finalPreCmdOpts} aggregate-graph "
                "{fileDistributionEndPoint}{qgraphFile} {butlerConfig} -j {requestCpus} "
                "--register-dataset-types {updateOutputChain} {extraAggregateOptions}"
            ), bps=True, series=True, spellings=("command",)),
    ),
    "from quanta to jobs": (
        Key("bpsUseShared", vt.FLAG, RUN,
            "Whether jobs share a file system with the submit host; otherwise the quantum graph is among the "
            "files that are transferred to them, if the workload manager transfers any.", graphs=True, bps=True),
        Key("whenSaveJobQgraph", vt.choice("NEVER", "QGRAPH", "TRANSFORM", "PREPARE", "SUBMIT"), RUN,
            "When a quantum graph is written for each job. Only NEVER is supported: all jobs read the whole "
            "graph.", graphs="NEVER", bps=True),
        Key("remoteBuild", vt.FREE_MAP, RUN, "How the workflow is built at a remote place (PanDA).",
            example={"enabled": True}, users=("bps",)),
        Key("remoteBuild.enabled", vt.FLAG, RUN, "Whether the workflow is built at a remote place.", example=True,
            bps=True),
        Key("remoteBuild.runnerCommand", vt.TEXT, RUN, "The command that builds it there.",
            example="build {fileName}", bps=True),
        Key("remoteBuild.files", vt.MAP_LIST_OR_TEXT, RUN, "Files to transfer there, beside the configuration.",
            example=["colours.yaml"], bps=True),
        Key("executionButler", vt.MAP, RUN, "Obsolete: BPS's execution Butler."),
        Key("executionButler.whenCreate", vt.TEXT, RUN, "When it is made. Only NEVER has an effect.", graphs="NEVER",
            bps=True),
    ),
})
# fmt: on
