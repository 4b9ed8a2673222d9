"""Every key that BPS and its HTCondor plugin read is known to the schema, and documented with the defaults."""

from __future__ import annotations

from typing import Any, Final

import pytest
from tests.config.documented_keys import ALL_FILES, DOCUMENTED, SCHEMA, layer

from longshore.config.interpolate import DEFAULT_SCOPE
from longshore.config.merge import merge_layers
from longshore.config.schema import check_schema, find_unknown_keys
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml

COMMANDS: Final = "createQuantumGraph runQuantumCommand updateQuantumGraph pipetask.pipetaskInit.runQuantumCommand"
PIECES: Final = (
    "pipetaskOutput pipetaskInput pipetaskDataQuery fileDistributionEndPoint defaultPreCmdOpts qgraphPreCmdOpts "
    "initPreCmdOpts runPreCmdOpts updateQgraphPreCmdOpts finalJob.finalPreCmdOpts extraQgraphOptions extraInitOptions "
    "extraRunQuantumOptions extraUpdateQgraphOptions extraAggregateOptions"
)
PAYLOAD: Final = "payloadName butlerConfig inCollection dataQuery output outputRun runInit"
RUN: Final = (
    "pipelineYaml qgraphFile operator project campaign computeSite computeCloud wmsServiceClass clusterAlgorithm "
    "bpsUseShared whenSaveJobQgraph useLazyCommands templateDataId useNodeIdInClusterName subDirTemplate submitPath "
    "qgraphFileTemplate saveDot saveGenericWorkflow saveClusteredQgraph validateClusteredQgraph makeIdLink idLinkPath "
    "executionButler.whenCreate includeConfigs bpsGenerateConfig"
)
JOB: Final = (
    "requestMemory requestCpus requestMemoryMax requestDisk requestWalltime memoryMultiplier memoryLimit "
    "numberOfRetries retryUnlessExit preemptible queue priority category accountingGroup accountingUser mailTo "
    "whenToMail concurrencyLimit abortOnValue abortReturnValue preCmdline postCmdline profile attrs environment"
)
FINAL: Final = (
    "whenRun whenSetup implementation concurrencyLimit requestCpus requestMemory retryUnlessExit updateOutputChain "
    "command1 overwriteJobFiles"
)
CLUSTER: Final = (
    "pipetasks dimensions equalDimensions partitionDimensions partitionMaxClusters partitionMaxSize clusterTemplate "
    "findDependencyMethod"
)
ORDERING: Final = (
    "labels dimensions equalDimensions findDependencyMethod implementation blocking ordering_type"  # its own spelling
)
CUSTOM: Final = "executable arguments inputs outputs"
REMOTE: Final = "enabled runnerCommand files"
PROVISIONING: Final = (
    "NodeCount MaxIdleTime CheckInterval MaxWallTime Queue AccountingUser ExtraOptions Platform Script ScriptConfig "
    "ScriptConfigPath"
)
CONDOR: Final = (
    "provisionResources overwriteJobFiles executeMachinesPattern nodeset releaseExpr profile.condor "
    "wmsConfig.DAGMAN_MANAGER_JOB_APPEND_GETENV wmsConfig.DAGMAN_GENERATE_SUBDAG_SUBMITS"
)

KEYS: Final = [
    *COMMANDS.split(),
    *PIECES.split(),
    *(f"payload.{key}" for key in PAYLOAD.split()),
    *RUN.split(),
    *JOB.split(),
    *(f"finalJob.{key}" for key in FINAL.split()),
    *(f"cluster.NAME.{key}" for key in CLUSTER.split()),
    *(f"ordering.NAME.{key}" for key in ORDERING.split()),
    *(f"customJob.{key}" for key in CUSTOM.split()),
    *(f"remoteBuild.{key}" for key in REMOTE.split()),
    *(f"provisioning.provisioning{key}" for key in PROVISIONING.split()),
    *CONDOR.split(),
]
"""Each at the place where BPS reads it; NAME is any name."""

ELSEWHERE: Final = [
    *(f"{part}.{key}" for part in ("pipetask.NAME", "cluster.NAME", "site.NAME", "cloud.NAME") for key in JOB.split()),
    *(f"{part}.{key}" for part in ("finalJob", "customJob", "pipetask.pipetaskInit") for key in JOB.split()),
    *(f"{part}.profile.condor" for part in ("site.NAME", "pipetask.NAME", "cluster.NAME", "finalJob", "customJob")),
    *(f"{part}.overwriteJobFiles" for part in ("pipetask.NAME", "cluster.NAME", "customJob")),
    *(
        f"site.NAME.{key}"
        for key in ("nodeset", "wmsConfig", "executeMachinesPattern", "provisioning.provisioningQueue")
    ),
    *("finalJob.command2", "profile.condor.+Attr", "wmsConfig.DAGMAN_MAX_JOBS_IDLE"),
]
"""Places where a key is read as well, which are not documented once more."""

BPS: Final[dict[str, Any]] = {
    ".payload.output": "u/{operator}/{payloadName}",
    ".payload.outputRun": "{output}/{timestamp}",
    ".payload.runInit": True,
    "clusterAlgorithm": "lsst.ctrl.bps.quantum_clustering_funcs.single_quantum_clustering",
    "requestMemory": 2048,
    "requestCpus": 1,
    "memoryMultiplier": 2,
    "numberOfRetries": 5,
    "retryUnlessExit": [1, 2],
    "preemptible": True,
    "bpsUseShared": True,
    "whenSaveJobQgraph": "NEVER",
    "useLazyCommands": True,
    "templateDataId": "{tract}_{patch}_{band}_{visit}_{exposure}_{detector}",
    "useNodeIdInClusterName": True,
    "subDirTemplate": "{label}/{tract}/{patch}/{band}/{subfilter}/{physical_filter}/{visit}/{exposure}",
    "submitPath": "${PWD}/submit/{outputRun}",
    "qgraphFileTemplate": "{uniqProcName}.qg",
    "saveDot": False,
    "makeIdLink": False,
    "idLinkPath": "${PWD}/bps_links",
    ".executionButler.whenCreate": "NEVER",
    ".finalJob.whenRun": "ALWAYS",
    ".finalJob.requestCpus": 16,
    ".finalJob.requestMemory": 32768,
    ".finalJob.retryUnlessExit": 2,
    ".finalJob.concurrencyLimit": "db_limit",
    ".finalJob.updateOutputChain": "--update-output-chain",
    "overwriteJobFiles": True,
    ".finalJob.overwriteJobFiles": False,
    "provisionResources": False,
    ".provisioning.provisioningNodeCount": 10,
    ".provisioning.provisioningMaxIdleTime": 900,
    ".provisioning.provisioningCheckInterval": 600,
    ".provisioning.provisioningExtraOptions": "",
    ".provisioning.provisioningScriptConfigPath": "${HOME}/.lsst/condor-info.py",
    ".wmsConfig": {"DAGMAN_MANAGER_JOB_APPEND_GETENV": "TRUE", "DAGMAN_GENERATE_SUBDAG_SUBMITS": True},
    "executeMachinesPattern": ".*worker.*",
}


def as_yaml(key: str) -> str:
    *above, last = key.split(".")
    return "".join("  " * depth + f"{step}:\n" for depth, step in enumerate(above)) + "  " * len(above) + f"{last}:"


def test_the_schema_knows_every_key_of_bps() -> None:
    for key in [*KEYS, *ELSEWHERE]:
        root = parse_yaml(as_yaml(key), "f.yaml")
        assert list(find_unknown_keys(root, SCHEMA, SCHEMA)) == [], key
        assert check_schema(root, SCHEMA) == [], key


def test_the_schema_does_not_know_every_key() -> None:
    for key in ("noKey", "provisioning.noKey", "cluster.NAME.noKey", "ordering.NAME.noKey", "customJob.noKey"):
        assert list(find_unknown_keys(parse_yaml(as_yaml(key), "f.yaml"), SCHEMA, SCHEMA)), key


def test_every_key_of_bps_is_documented() -> None:
    comments = {".".join(place): comment for _, place, comment, _ in DOCUMENTED}
    assert not [key for key in KEYS if not comments.get(key)]


@pytest.mark.parametrize("key", BPS)
def test_defaults_are_those_of_bps(key: str) -> None:
    config = Config(merge_layers(map(layer, ALL_FILES)))
    hit = config.lookup(key, DEFAULT_SCOPE)
    assert hit is not None
    assert hit.plain_value() == BPS[key]


def test_what_is_one_sites_is_no_default() -> None:
    config = Config(merge_layers(map(layer, ALL_FILES)))
    for key in ("memoryLimit", "provisioningQueue", "provisioningAccountingUser", "provisioningPlatform"):
        assert not config.search(key).is_found
        assert not config.search(f".provisioning.{key}").is_found
