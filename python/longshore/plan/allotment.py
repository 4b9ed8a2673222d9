"""Tells a job in its environment's words what it was given: how many threads to make, and which GPUs are its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""Variables that libraries read for how many threads to make; without them each makes one per processor it sees."""
GPU_RESOURCES: Final = ("gpus", "gpu")
"""Names of resources that are GPUs."""
GPU_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that show a process some GPUs only.

Not ``ROCR_VISIBLE_DEVICES``: beneath it the others count anew from 0, so that of both together nothing is left.
"""


def thread_variables(cpus: int) -> dict[str, str]:
    """The variables that hold libraries to a number of threads."""
    return dict.fromkeys(THREAD_VARIABLES, str(cpus))


def identity_variables(identities: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The variables in which a job finds which members of each resource it was given."""
    variables = {}
    for name, these in identities.items():
        words = ",".join(these)
        variables[f"LONGSHORE_JOB_RESOURCE_{resource_variable(name)}_IDS"] = words
        if name in GPU_RESOURCES:
            variables |= dict.fromkeys(GPU_VARIABLES, words)
    return variables


def resource_variable(name: str) -> str:
    """The name of a resource as part of a variable's."""
    return re.sub(r"\W", "_", name, flags=re.ASCII).upper()
