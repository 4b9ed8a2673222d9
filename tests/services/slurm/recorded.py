"""What Slurm's programs answered on a cluster, by the words with which they were asked."""

from __future__ import annotations

# As Slurm 22.05.8 prints it, some of it left out.
CONFIG = """Configuration data as of 2026-11-20T09:00:00
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = testclu
MaxArraySize            = 10001
MaxJobCount             = 50000
MinJobAge               = 300 sec
SLURM_VERSION           = 22.05.8
"""
PARTITIONS = (
    "PartitionName=main AllowAccounts=ALL AllowQos=ALL Default=YES MaxTime=UNLIMITED State=UP TotalNodes=4\n"
    "PartitionName=short AllowAccounts=test,other AllowQos=low Default=NO MaxTime=00:10:00 State=DRAIN TotalNodes=1\n"
)
ASSOCIATIONS = "test|high,low,normal|10|200|1-00:00:00\nroot|normal|||\n"
QOS = "normal||||DenyOnLimit\nlow||||\nhigh|50|100||PartitionTimeLimit\n"
NODES = (
    "main|4|4000|0|gpu:a100:2(S:0-1),craynetwork:4|gpunode,fast|2|n[1-2]\n"
    "main|64|250000|1000|(null)|(null)|2|n[3-4]\nshort|4|4000|0|(null)|(null)|1|n4\nbad line\nx|0|0|0|||1|y\n"
)
RESERVATIONS = "ReservationName=r1 StartTime=2026-11-20T09:00:00 Nodes=n4 State=ACTIVE\n"
LICENCES = "LicenseName=lic_a Total=3 Used=0 Free=3 Reserved=0 Remote=no\nLicenseName=lic_b Total=1 Used=1 Free=0\n"
ANSWERS = {
    "scontrol show config": CONFIG,
    "sbatch --version": "slurm-wlm 22.05.8\n",
    "scontrol --oneliner show partition": PARTITIONS,
    "sacctmgr --noheader --parsable2 show associations": ASSOCIATIONS,
    "sacctmgr --noheader --parsable2 show qos": QOS,
    "squeue": "",
    "sacct": "",
    "sinfo --noheader --all": NODES,
    "scontrol --oneliner show licenses": LICENCES,
    "scontrol --oneliner show reservation": RESERVATIONS,
}
