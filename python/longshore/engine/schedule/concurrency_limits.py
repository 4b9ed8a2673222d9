"""Concurrency limits and job categories (``concurrencyLimits``, ``maxJobs``): pools from which jobs take; pure.

A limit counts the jobs of all of a user's runs at a site, a category those of one run. A job takes from both pools when
it is submitted and gives back when it is over, as it does with processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from longshore.contract.service import Problem
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.settings import EngineSettings
from longshore.model.report import FINAL_LABEL
from longshore.model.wording import count_noun, did_you_mean
from longshore.model.workflow import JobSettings

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

_CATEGORY: Final = "category:"
"""Prefix of a category's name; no limit has a colon in its name."""


def find_missing_limits(workflow: Workflow, settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a note per limit or category that jobs name and no setting gives a number.

    `settings` are the future `EngineSettings`, by field name.
    """
    limits, categories = settings.get("concurrency_limits", {}), settings.get("max_jobs", {})
    suggestions: dict[str, tuple[str, str, str]] = {}
    for profile in (job.settings for job in workflow.samples):
        # BPS names this one for every final job, so that the user may not have meant a limit.
        names = [name for name in profile.concurrency if (profile.label, name) != (FINAL_LABEL, "db_limit")]
        for name in names:
            if name not in limits:
                found = ("concurrencyLimit", profile.label, did_you_mean(name, limits))
                suggestions.setdefault(f"concurrencyLimits: {{{name}: N}}", found)
        if (name := profile.category) and name not in categories:
            found = ("category", profile.label, did_you_mean(name, categories))
            suggestions.setdefault(f"maxJobs: {{{name}: N}}", found)
    for suggestion, (key, label, hint) in suggestions.items():
        yield Problem(
            message=f"jobs run unlimited, because a limit that they name has no number; see '{suggestion}'",
            key=key,
            label=label,
            hint=hint,
            fatal=False,
        )


class ConcurrencyLimits:
    """Limits and categories that hold jobs back, beside the resources of the machine.

    Parameters
    ----------
    settings
        Engine settings, fixed when the run was prepared.
    profiles
        The job profiles.

    Attributes
    ----------
    limits
        The limits that jobs of this run name, less the part that other runs use.
    categories
        The categories with a limit, under their prefixed names.
    limit_amounts
        Amounts that a job takes of both, per profile.
    """

    def __init__(self, settings: EngineSettings, profiles: Sequence[JobSettings]) -> None:
        # Profiles that differ in their requests have the same attributes.
        amounts_by_attributes: dict[int, Mapping[str, int]] = {}
        for profile in profiles:
            if id(profile.attributes) not in amounts_by_attributes:
                category = {f"{_CATEGORY}{profile.category}": 1} if profile.category else {}
                amounts_by_attributes[id(profile.attributes)] = {**profile.concurrency, **category}
        self.limit_amounts = [amounts_by_attributes[id(profile.attributes)] for profile in profiles]
        named = {name for amounts in amounts_by_attributes.values() for name in amounts}
        self.limits = Pool({name: most for name, most in settings.concurrency_limits.items() if name in named})
        categories = {f"{_CATEGORY}{name}": most for name, most in settings.max_jobs.items()}
        self.categories = Pool({name: most for name, most in categories.items() if name in named})

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Pools of limits and of categories that are not empty."""
        return tuple(pool for pool in (self.limits, self.categories) if pool.capacity)

    def describe_full(self, wanted: Iterable[Mapping[str, int]]) -> list[str]:
        """Describe the limits and categories without room for some of the wanted amounts, one mapping per job."""
        names = dict.fromkeys(name for amounts in wanted for name in amounts)
        places = ((pool, name) for name in names for pool in self.pools if name in pool.capacity)
        return [self._describe(pool, name) for pool, name in places if pool.free[name] <= 0]

    def _describe(self, pool: Pool, name: str) -> str:
        most, taken = pool.capacity[name], pool.amounts_in_use[name]
        if pool is self.categories:
            running = f"{count_noun(taken, 'job')} of the category '{name.removeprefix(_CATEGORY)}'"
            return f"{running} {'runs' if taken == 1 else 'run'}, and 'maxJobs' allows no more"
        limit = f"the limit '{name}', which is {most}"
        if 0 < taken < most:
            return f"this run takes {taken} of {limit}, and your other runs take the rest"
        return f"{'this run takes' if taken else 'your other runs take'} all of {limit}"
