"""Checks of settings that only Slurm has (pure functions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from longshore.batch.settings import own_map
from longshore.contract.context import Context, Problem

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

IGNORED_SETTINGS: Final = ("accountingUser", "abortReturnValue")
"""Settings of a job without an equivalent in Slurm."""


def check_library(ctx: Context) -> Iterator[Problem]:
    """Note a library that has no use."""
    if own_map("slurm", ctx.site.settings).get("lib_slurm"):
        yield Problem(
            message="'lib_slurm' is not used: Longshore runs Slurm's programs", origin=ctx.site.origin, fatal=False
        )


def check_clusters(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Find jobs for another cluster, which cannot be submitted with the others."""
    site_map = own_map("slurm", ctx.site.settings)
    for job in workflow.samples:
        own = job.settings.service_settings
        for name in ("clusters", "config"):
            if (value := own.get(name, site_map.get(name))) != site_map.get(name):
                yield Problem(
                    message=f"job '{job.name}': 'slurm.{name}' is '{value}', and that of the run's site "
                    f"'{site_map.get(name)}': a run has one cluster",
                    job=job.name,
                    key="slurm",
                )
