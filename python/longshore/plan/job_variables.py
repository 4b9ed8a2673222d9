"""Environment variables of a job: its name, request and attempt (``LONGSHORE_JOB_*``), threads, and GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from longshore.contract.context import RUN_FOLDER_VARIABLE
from longshore.model.workflow.request import MIB, Request

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""Variables that set the thread count of libraries; the default is a thread per visible processor."""
GPU_RESOURCES: Final = ("gpus", "gpu")
"""Names of resources that are GPUs."""
GPU_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that restrict a process to some GPUs.

Not ``ROCR_VISIBLE_DEVICES``: it renumbers the GPUs from 0, so that both together would hide all.
"""


def thread_variables(cpus: int) -> dict[str, str]:
    """Variables that set the thread count of libraries."""
    return dict.fromkeys(THREAD_VARIABLES, str(cpus))


def identity_variables(identities: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Variables with the members of each resource that a job got."""
    variables = {}
    for name, these in identities.items():
        words = ",".join(these)
        variables[f"LONGSHORE_JOB_RESOURCE_{resource_variable(name)}_IDS"] = words
        if name in GPU_RESOURCES:
            variables |= dict.fromkeys(GPU_VARIABLES, words)
    return variables


def resource_variable(name: str) -> str:
    """Name of a resource as part of a variable's name."""
    return re.sub(r"\W", "_", name, flags=re.ASCII).upper()


def job_variables(*, name: str, label: str, attempt: int, request: Request, run_dir: str) -> dict[str, str]:
    """Variables that describe a job to itself; values that are unknown are absent."""
    variables = {
        "LONGSHORE_JOB_NAME": name,
        "LONGSHORE_JOB_LABEL": label,
        "LONGSHORE_JOB_ATTEMPT": str(attempt),
        RUN_FOLDER_VARIABLE: run_dir,
        "LONGSHORE_JOB_CPUS": str(request.cpus),
    }
    if request.memory_b is not None:
        variables["LONGSHORE_JOB_MEMORY_MB"] = str(request.memory_b // MIB)
    if request.disk_b is not None:
        variables["LONGSHORE_JOB_DISK_MB"] = str(request.disk_b // MIB)
    for resource, amount in request.resources.items():
        variables[f"LONGSHORE_JOB_RESOURCE_{resource_variable(resource)}"] = str(amount)
    return variables
