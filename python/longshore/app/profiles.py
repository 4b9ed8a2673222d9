"""Compiles the profile of each label at its own site, within what there is and what the site's operator allows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from longshore.app.begin import Begun
from longshore.app.configuration import NOT_CHOSEN, Configuration
from longshore.app.services import short_name
from longshore.app.teller import Teller
from longshore.config.merge import Node
from longshore.config.profile import REQUEST_KEYS, JobProfile, compile_profile
from longshore.config.search import Scope
from longshore.contract.context import Problem
from longshore.errors import ConfigError
from longshore.model.workflow import Workflow
from longshore.plan.fit import fitted
from longshore.sites.limits import beyond, within
from longshore.sites.setup import setup_lines

_MODULE_HOMES: Final = ("LMOD_PKG", "MODULESHOME")
"""Variables with which Lmod and Environment Modules say where they are."""


class Profiles:
    """Compiles profiles, and lowers what nobody asked for.

    Parameters
    ----------
    begun
        The run.
    """

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._capacity = (begun.ctx.probe.capacity if begun.ctx.probe else None) or {}
        self._at = {begun.configuration.site: begun.configuration}
        self.notes: dict[str, None] = {}

    def of(
        self,
        label: str,
        *,
        free: frozenset[str] = frozenset(),
        searchobj: Node | None = None,
        with_command: bool = True,
        command: Node | None = None,
    ) -> JobProfile:
        """The profile of a label; see `compile_profile`.

        Raises
        ------
        ConfigError
            A value is wrong, or its site belongs to another workload manager.
        """
        configuration = self._configuration(label, searchobj)
        profile = compile_profile(
            configuration.config,
            label,
            site=configuration.site,
            free=free,
            env=configuration.env,
            searchobj=searchobj,
            with_command=with_command,
            command=command,
        )
        settings, too_much = fitted(profile.settings, self._capacity)
        place = configuration.place
        not_chosen = [key for key in REQUEST_KEYS if _is_not_chosen(key, label, configuration, searchobj)]
        settings, forbidden = within(settings, place.limits, not_chosen, place.name)
        setup = self._setup(configuration)
        self.notes |= dict.fromkeys([*too_much, *forbidden])
        return replace(profile, settings=msgspec.structs.replace(settings, setup=setup) if setup else settings)

    def tell(self, tell: Teller) -> None:
        """Tell what was lowered or left out."""
        for note in self.notes:
            tell.note(note)

    def _configuration(self, label: str, searchobj: Node | None) -> Configuration:
        """The configuration at the site of a label."""
        run = self._begun.configuration
        current = {"curr_pipetask": label, "curr_cluster": label}
        found = run.config.search("computeSite", current=current, searchobj=searchobj, env=run.env)
        site = str(found.value or run.site)
        if site not in self._at:
            there = run.at_site(site, found.origin)
            if short_name(there.service) != short_name(run.service):
                raise ConfigError(
                    f"the site '{site}' of '{label}' belongs to '{there.service}', and this run to '{run.service}'",
                    origin=found.origin,
                    hint="All jobs of a run are handed to one workload manager.",
                )
            self._at[site] = there
            self.notes |= dict.fromkeys(there.place.notes)
        return self._at[site]

    def _setup(self, configuration: Configuration) -> tuple[str, ...]:
        place = configuration.place
        modules: list[str] = place.settings.get("modules") or []
        lines: list[str] = (place.settings.get("setup") or {}).get("job") or []
        if modules and self._begun.service.runs_here and not _has_modules(configuration):
            named = ", ".join(f"'{module}'" for module in modules)
            note = f"the site '{place.name}' wants {named} loaded; this machine has no command 'module', so nothing is"
            self.notes[note] = None
            modules = []
        return setup_lines(place.name, lines, modules)


def beyond_limits(begun: Begun, workflow: Workflow) -> Iterator[Problem]:
    """The requests of users that lie beyond a ceiling of their site."""
    limits = {begun.configuration.site: begun.configuration.place.limits}
    judged: set[int] = set()
    for job in workflow:
        # Jobs of one profile share their settings and so their fate.
        if id(job.settings) in judged:
            continue
        judged.add(id(job.settings))
        site = job.settings.site or begun.configuration.site
        if site not in limits:
            limits[site] = begun.configuration.at_site(site).place.limits
        for name, key, asked, limit in beyond(job.settings.request, limits[site]):
            yield Problem(
                message=f"job '{job.name}' asks for {asked} by '{key}'; 'limits.{name}' of the site '{site}' is "
                f"{limit.written} ({limit.origin})",
                job=job.name,
                key=key,
                hint="Ask for less, or choose another site.",
            )


def _is_not_chosen(key: str, label: str, configuration: Configuration, searchobj: Node | None) -> bool:
    """Whether a value comes from defaults or from the site itself."""
    current: dict[str, Any] = {"curr_pipetask": label, "curr_cluster": label, "curr_site": configuration.site}
    hit = configuration.config.lookup(key, Scope(current=current, env=configuration.env, searchobj=searchobj))
    return hit is None or (hit.origin is not None and hit.origin.layer in NOT_CHOSEN)


def _has_modules(configuration: Configuration) -> bool:
    return any(configuration.env.get(name) for name in _MODULE_HOMES) or shutil.which("module") is not None
