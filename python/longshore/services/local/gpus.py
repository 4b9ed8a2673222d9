"""Detection of this machine's GPUs from the environment and drivers' files, without starting a program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from longshore.jobs.commands import GPU_RESOURCES

_NONE: Final = {"", "-1", "none", "void", "NoDevFiles"}
"""Values of the variables of CUDA and of containers that mean no GPU."""


def named_members(
    pool: Mapping[str, int | Iterable[str]], env: Mapping[str, str], *, root: Path = Path("/")
) -> dict[str, tuple[str, ...]]:
    """Return the members of every resource whose members have names.

    `pool` holds the configured amount or list of members per resource. `env` may restrict the visible GPUs. `root` is
    the folder with ``/dev`` and ``/sys``.
    """
    members = {name: tuple(configured) for name, configured in pool.items() if not isinstance(configured, int)}
    for name in GPU_RESOURCES:
        configured = pool.get(name)
        if isinstance(configured, int):
            visible = _visible_gpus(env) or ()
            members[name] = visible[:configured] if len(visible) >= configured else tuple(map(str, range(configured)))
    if not any(name in pool for name in GPU_RESOURCES) and (found := detected_gpus(env, root=root)):
        members["gpus"] = found
    return members


def detected_gpus(env: Mapping[str, str], *, root: Path = Path("/")) -> tuple[str, ...]:
    """Name the GPUs: those the environment shows, else those of the drivers of NVIDIA and AMD."""
    visible = _visible_gpus(env)
    if visible is not None:
        return visible
    count = _count_nvidia(root) or _count_amd(root)
    return tuple(map(str, range(count)))


def _visible_gpus(env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the GPUs that the environment shows; ``None`` where it does not restrict them."""
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        if variable in env:
            entries = [word.strip() for word in env[variable].split(",")]
            # As in CUDA: entries after an invalid one do not count.
            end = next((index for index, word in enumerate(entries) if word in _NONE), len(entries))
            names = tuple(dict.fromkeys(entries[:end]))
            # Below ROCR's variable, which jobs inherit, the other variables count from 0 again.
            return tuple(map(str, range(len(names)))) if variable.startswith("ROCR") else names
    return None


def _count_nvidia(root: Path) -> int:
    return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in _list_folder(root / "dev"))


def _count_amd(root: Path) -> int:
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    count = 0
    for name in _list_folder(nodes):
        try:
            properties = (nodes / name / "properties").read_text("ascii", errors="replace")
        except OSError:
            continue
        found = re.search(r"^simd_count (\d+)$", properties, re.MULTILINE)
        count += found is not None and int(found[1]) > 0
    return count


def _list_folder(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
