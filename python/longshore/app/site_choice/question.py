"""The question at which site a run is to be: its candidates, what it needs, and how one of them is chosen."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from longshore.app.configure.configuration import Draft
from longshore.app.configure.layers import Layers
from longshore.app.configure.site import candidate_sites, candidates_of, site_folders
from longshore.app.site_choice.run_needs import derive_needs
from longshore.app.site_choice.settings import ChoiceSettings, read_choice_settings
from longshore.app.site_choice.site_facts import KnownCandidate, read_candidate
from longshore.config.interpolate import Scope
from longshore.config.search import Config
from longshore.sites.match import RunNeeds
from longshore.world.read.site_profiles import SitePath


class SiteQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates of a run, what it needs, and the settings of the choice."""

    draft: Draft
    wished: tuple[str, ...]
    candidates: tuple[KnownCandidate, ...]
    needs: RunNeeds
    settings: ChoiceSettings

    def without(self, site: str, why: str) -> SiteQuestion:
        """Return the question with a candidate that is passed over."""
        passed = KnownCandidate(name=site, left_out=why)
        return replace(self, candidates=tuple(passed if each.name == site else each for each in self.candidates))


def ask_for_site(layers: Layers, *, default: str = "") -> SiteQuestion | None:
    """Return the question of a configuration that names candidates; ``None`` if it names a site, or none.

    With a `default`, a site that is named is the only candidate, and the default stands for none.

    Raises `ConfigError` if a candidate is unknown or a setting of the choice is wrong.
    """
    base, env = Config(layers.stack.root()), layers.env
    written = base.search("computeSite", Scope(env=env))
    value = written.value or default
    if not isinstance(value, str | list) or not value:
        return None
    sites = SitePath(site_folders(base, env), env)
    names = candidates_of(value, base, sites, written.origin)
    if names is None and default:
        names = candidate_sites([str(value)], base, sites, written.origin)
    if names is None:
        return None
    draft = Draft(layers=layers, base=base, sites=sites, config=base, site="", service="", service_origin=None)
    settings = read_choice_settings(base, layers.path.parent)
    wished = value if isinstance(value, list) else [value]
    return SiteQuestion(
        draft=draft,
        wished=tuple(map(str, wished)),
        candidates=tuple(read_candidate(name, base, sites) for name in names),
        needs=derive_needs(draft, settings),
        settings=settings,
    )
