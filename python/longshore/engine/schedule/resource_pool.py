"""What jobs take from: pools of resources that hand out each identity once, and ``concurrencyLimits``; pure.

A limit counts the jobs of all of a user's runs at a site, a category those of one run. A job takes from both pools when
it is submitted and gives back when it is over, as it does with processors.

"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from longshore.contract.service import Problem
from longshore.engine.settings import EngineSettings
from longshore.model.report import FINAL_LABEL
from longshore.model.wording import count_noun, did_you_mean
from longshore.model.workflow import JobSettings

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# Pools.


Identities: TypeAlias = Mapping[str, tuple[str, ...]]
"""Identities of resources whose members are distinct, such as GPUs, by the resource's name."""
NO_IDENTITIES: Final[Identities] = {}


class Pool:
    """Capacity of a machine, and the part that is free.

    Parameters
    ----------
    capacity
        Amount per resource name. A resource without an entry is not counted.
    identities
        Members of the resources that are handed out by name; their number is the amount.
    """

    def __init__(self, capacity: Mapping[str, int], identities: Mapping[str, Sequence[str]] | None = None) -> None:
        self.identities = {name: tuple(these) for name, these in (identities or {}).items()}
        self.capacity = {**capacity, **{name: len(these) for name, these in self.identities.items()}}
        self.ceiling = dict(self.capacity)
        """Most that may be taken of the capacity; the rest is for other runs."""
        self.free = dict(self.capacity)
        """Rest of the ceiling; below 0 where the ceiling was lowered beneath the amount taken."""
        self._allowed = dict(self.identities)
        self._had: dict[str, list[str]] = {name: [] for name in self.identities}

    @property
    def amounts_in_use(self) -> dict[str, int]:
        """Amount taken per resource."""
        return {name: most - self.free[name] for name, most in self.ceiling.items()}

    @property
    def identities_in_use(self) -> dict[str, tuple[str, ...]]:
        """Identities that are taken."""
        return {name: tuple(these) for name, these in self._had.items()}

    def clamp(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Return the amounts of counted resources, each limited to the capacity.

        Requests above capacity are refused when a run is prepared. If the run moved to a smaller machine since, the
        job gets the whole machine rather than waiting for ever.
        """
        return {name: min(amount, self.capacity[name]) for name, amount in amounts.items() if name in self.capacity}

    def fits(self, amounts: Mapping[str, int]) -> bool:
        """Return whether all the amounts are free right now."""
        return self.count_fitting(amounts, 1) == 1

    def count_fitting(self, amounts: Mapping[str, int], most: int) -> int:
        """Return how many times the amounts are free right now, up to `most` times."""
        free = self.free
        for name, amount in amounts.items():
            if amount > free[name]:
                return 0
            if amount:
                most = min(most, free[name] // amount)
                if name in self.identities:
                    most = min(most, len(self._idle(name)) // amount)
        return most

    def take(self, amounts: Mapping[str, int]) -> Identities:
        """Reserve amounts that fit, and return the identities that go with them."""
        if not self.identities:
            self.hold(amounts)
            return NO_IDENTITIES
        given = {
            name: tuple(self._idle(name)[:amount])
            for name, amount in amounts.items()
            if amount and name in self.identities
        }
        self.hold(amounts, given)
        return given

    def hold(self, amounts: Mapping[str, int], identities: Identities = NO_IDENTITIES, *, times: int = 1) -> None:
        """Count resources that are already in use, whether or not they fit; the amounts so many times."""
        for name, amount in amounts.items():
            self.free[name] -= amount * times
        for name, these in identities.items():
            if name in self._had:
                self._had[name].extend(these)

    def give(self, amounts: Mapping[str, int], identities: Identities = NO_IDENTITIES) -> None:
        """Return amounts and identities that were taken."""
        free = self.free
        for name, amount in amounts.items():
            free[name] += amount
        for name, these in identities.items() if identities else ():
            for identity in these:
                if identity in self._had.get(name, ()):
                    self._had[name].remove(identity)

    def resize(self, ceiling: Mapping[str, int], identities: Identities = NO_IDENTITIES) -> None:
        """Set a ceiling within the capacity; amounts in use stay in use.

        Parameters
        ----------
        ceiling
            Amount per resource name; a resource without an entry is unavailable.
        identities
            Members that may be handed out, of each resource that has identities.
        """
        for name, capacity in self.capacity.items():
            most = max(0, min(capacity, ceiling.get(name, 0)))
            self.free[name] += most - self.ceiling[name]
            self.ceiling[name] = most
        self._allowed = {
            name: tuple(each for each in these if each in identities.get(name, ()))
            for name, these in self.identities.items()
        }

    def _idle(self, name: str) -> list[str]:
        had = self._had[name]
        return [identity for identity in self._allowed[name] if identity not in had]


# Limits on jobs (``concurrencyLimits``, ``maxJobs``).


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
        self.limit_amounts = [
            _with_own_cpus(profile, amounts_by_attributes[id(profile.attributes)]) for profile in profiles
        ]
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


_USER_CPUS: Final = ".perUser.cpus"
"""End of the name of the limit by which the processors of all of a user's runs at a site are counted."""


def _with_own_cpus(profile: JobSettings, amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the amounts of a profile, with the processors of its own request where these are more: jobs may differ."""
    lacking = [name for name, amount in amounts.items() if name.endswith(_USER_CPUS) and amount < profile.request.cpus]
    return {**amounts, **dict.fromkeys(lacking, profile.request.cpus)} if lacking else amounts
