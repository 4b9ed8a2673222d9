"""Choice of a cluster where Slurm's programs know several (sbatch(1): --clusters)."""

from __future__ import annotations

from collections.abc import Mapping

from longshore.model.values import YamlValue


def cluster_option(own: Mapping[str, YamlValue]) -> tuple[str, ...]:
    """Return the option of Slurm's programs that selects the cluster of a site."""
    clusters = own.get("clusters")
    return (f"--clusters={clusters}",) if clusters else ()
