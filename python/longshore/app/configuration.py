"""Brings the layers of configuration together, and fixes what a run needs to know before anything is built."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.app.layers import environment, machine_and_user
from longshore.app.lsst import is_lsst, lsst_layer
from longshore.app.services import BUILT_IN, find_service, short_name
from longshore.app.sites import Placed, chosen_site, placed, site_folders, site_layers
from longshore.config.check import Finding, Severity
from longshore.config.functions import Caller
from longshore.config.merge import PACKAGED, Layer, LayerRank, layer_from_mapping, merge
from longshore.config.search import Config, Scope
from longshore.errors import ConfigError, FilesError
from longshore.origin import Origin
from longshore.world.clock import timestamp
from longshore.world.etc import shipped
from longshore.world.host import user_name
from longshore.world.sites import SitePath
from longshore.world.yamlfile import FileRead, load_layers, read_yaml, set_layer

NOT_CHOSEN: Final = PACKAGED | {LayerRank.SITE.label}
"""Layers whose values nobody chose for this run."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The configuration of one run.

    Attributes
    ----------
    path
        The user's file.
    layers
        Everything that was merged, weakest first.
    config
        The merged whole.
    files
        Every file of the user's that was read.
    env
        The environment, with ``PWD`` as it really is.
    service
        Name of the workload manager's service, with the place it was written.
    site
        Name of the site.
    given
        The layers that depend on neither the site nor the kind of payload.
    sites
        Where profiles of sites lie.
    """

    path: Path
    layers: tuple[Layer, ...]
    config: Config
    files: tuple[FileRead, ...]
    env: Mapping[str, str]
    service: str
    service_origin: Origin | None
    site: str
    given: tuple[Layer, ...] = ()
    sites: SitePath = field(default_factory=lambda: SitePath((), {}))

    def search(self, key: str) -> Any:
        """The value of a key for the run as a whole, its variables filled in; empty text where there is none."""
        return self.config.search(key, current={"curr_site": self.site}, env=self.env).value

    def text(self, key: str) -> str:
        """The value of a key as text.

        Raises
        ------
        ConfigError
            It is a list or a map.
        """
        found = self.config.search(key, current={"curr_site": self.site}, env=self.env)
        if isinstance(found.value, list | dict):
            raise ConfigError(f"'{key}' must be text, not a list or a map", origin=found.origin)
        return "" if found.value is None else str(found.value)

    def flag(self, key: str) -> bool:
        """The value of a key as yes or no; no where there is none.

        Raises
        ------
        ConfigError
            It is neither.
        """
        value = self.search(key)
        word = str(value).lower()
        if word not in {"true", "false", "", "none"}:
            raise ConfigError(f"'{key}' must be true or false, not '{value}'", origin=self.origin(key))
        return word == "true"

    def origin(self, key: str) -> Origin | None:
        """Where the value of a key was written."""
        return self.config.search(key, current={"curr_site": self.site}, env=self.env).origin

    def written(self, key: str, label: str) -> Origin | None:
        """Where the user wrote what a key (``requestResources.gpu``: that of its map) is for a label, if anywhere."""
        name, _, below = key.partition(".")
        current = {"curr_pipetask": label, "curr_cluster": label, "curr_site": self.site}
        hit = self.config.lookup(name, Scope(current=current, env=self.env))
        node = hit.node if hit else None
        if node and below and isinstance(node.value, dict):
            node = node.value.get(below)
        return node.origin if node and node.origin.layer not in PACKAGED else None

    def with_defined(self, **values: str) -> Configuration:
        """The configuration with more of what Longshore itself defines (BPS: ``bps_defined``)."""
        return self.with_layer(layer_from_mapping({"bps_defined": values}, "bps_defined", LayerRank.COMMAND_LINE))

    def with_layer(self, layer: Layer) -> Configuration:
        """The configuration with a layer more, the strongest of all."""
        layers = (*self.layers, layer)
        return replace(
            self, layers=layers, given=(*self.given, layer), config=Config(merge(layers), self.config.caller)
        )

    def with_current(self, values: Mapping[str, str]) -> Configuration:
        """The configuration in which some names stand for something, whatever was written (BPS: ``current``)."""
        if not values:
            return self
        layer = layer_from_mapping({"current": values}, "current", LayerRank.COMMAND_LINE)
        layers = (*self.layers, layer)
        config = Config(merge(layers), self.config.caller)
        return replace(self, layers=layers, given=(*self.given, layer), config=config)

    def calling(self, caller: Caller) -> Configuration:
        """The configuration, in which functions that are not pure are called."""
        return replace(self, config=Config(self.config.root, caller))

    def at_site(self, name: str, origin: Origin | None = None) -> Configuration:
        """The configuration as it is for jobs at a site; without a name, for a site that nobody describes.

        Parameters
        ----------
        name
            Name of the site.
        origin
            Where that name was written.

        Raises
        ------
        ConfigError
            There is no such site, or its profile is wrong.
        """
        first = Config(merge(self.given))
        added = site_layers(first, name, self.sites, origin) if name else ()
        layers = (*_default_site(name), *self.given, *added)
        found = Config(merge(layers), self.config.caller)
        if is_lsst(found, site=name, env=self.env, beside=self.path.parent):
            layers = (*layers, lsst_layer())
            found = Config(merge(layers), self.config.caller)
        wanted = found.search("wmsServiceClass", current={"curr_site": name}, env=self.env)
        service = str(wanted.value or "local")
        if own := [layer for layer in _service_layer(service) if layer.root.value]:
            layers = (*layers, *own)
            found = Config(merge(layers), self.config.caller)
        return replace(self, layers=layers, config=found, service=service, service_origin=wanted.origin, site=name)

    def rechosen(self) -> Configuration:
        """The configuration at the site that its values choose, whichever it was made for."""
        first = Config(merge(self.given), self.config.caller)
        chosen = replace(self, config=first)
        return chosen.at_site(
            chosen_site(first, self.env, self.sites), first.search("computeSite", env=self.env).origin
        )

    @cached_property
    def place(self) -> Placed:
        """What holds at the site.

        Raises
        ------
        ConfigError
            Something of it is wrong.
        """
        if not self.site:
            return Placed(name="", settings={}, limits={})
        first = Config(merge(self.given))
        return placed(self.config, first, self.site, sites=self.sites, env=self.env, service=self.service)

    def read_files(self) -> tuple[FileRead, ...]:
        """Every file that took part: the user's, those of machine and user, and profiles of others' sites."""
        return (*self.files, *self.sites.files.values())


def load_configuration(
    path: Path, *, options: Mapping[str, str], sets: Iterable[str], now: float
) -> tuple[Configuration, list[Finding]]:
    """Read and merge all layers of a run's configuration, and lint the whole.

    Parameters
    ----------
    path, options, sets, now
        As for `read_configuration`.

    Returns
    -------
    tuple
        The configuration, and the warnings about it.

    Raises
    ------
    ConfigError
        A file cannot be read, or a value is wrong.
    UsageError
        A ``--set`` cannot be understood.
    """
    configuration, findings = read_configuration(path, options=options, sets=sets, now=now)
    return configuration, [*findings, *_checked(configuration)]


def read_configuration(
    path: Path,
    *,
    options: Mapping[str, str],
    sets: Iterable[str],
    now: float,
    problems: list[ConfigError] | None = None,
) -> tuple[Configuration, list[Finding]]:
    """Read and merge all layers of a run's configuration, whatever their values are.

    Parameters
    ----------
    path
        The user's file.
    options
        Values of named options of the command line, per key of ``bps_cmdline``.
    sets
        ``KEY=VALUE`` of the option ``--set``.
    now
        The run's moment, for ``{timestamp}``; seconds since the epoch.
    problems
        Takes what is wrong with the site, whose layers are then not there; without it, that is raised.

    Returns
    -------
    tuple
        The configuration, and warnings about the environment.

    Raises
    ------
    ConfigError
        A file cannot be read, or the site is not there.
    UsageError
        A ``--set`` cannot be understood.
    """
    env = {**os.environ, "PWD": str(current_directory())}
    _refuse_odd_name(path.absolute())
    said = (
        layer_from_mapping({"bps_cmdline": dict(options)}, "command line", LayerRank.COMMAND_LINE),
        set_layer(sets),
    )
    given, files, findings = _given(path, said, now=now, env=env)
    # Service and site choose layers of their own, and so are looked up before these are there.
    first = Config(merge(given))
    with _noted(problems):
        sites = SitePath((), env)
        sites = SitePath(site_folders(first, env), env)
    configuration = Configuration(
        path=path,
        layers=given,
        config=first,
        files=files,
        env=env,
        service="local",
        service_origin=None,
        site="",
        given=given,
        sites=sites,
    )
    with _noted(problems):
        configuration = configuration.at_site(chosen_site(first, env, sites), configuration.origin("computeSite"))
    with _noted(problems):
        configuration = _with_backend_options(configuration)
    return configuration, findings


def _given(
    path: Path, said: tuple[Layer, ...], *, now: float, env: Mapping[str, str]
) -> tuple[tuple[Layer, ...], tuple[FileRead, ...], list[Finding]]:
    """The layers that depend on no site, weakest first; the files they were read from; and warnings.

    Parameters
    ----------
    path, now
        As for `read_configuration`.
    said
        The layers of the command line.
    env
        The environment.
    """
    loaded = load_layers(path, env=env)
    defaults = _shipped_layer("defaults", LayerRank.DEFAULTS, "etc", "defaults.yaml")
    schema = msgspec.json.decode(shipped("etc", "schema", "config.json").read_bytes())
    around = machine_and_user(env)
    variables, findings = environment(env, schema, defaults.root)
    given = (defaults, _computed(path, now), *around.layers, variables, *loaded.layers, *said)
    return given, (*loaded.files, *around.files), findings


def _with_backend_options(configuration: Configuration) -> Configuration:
    """The configuration with what ``backendOptions`` stands for, which the service knows.

    Raises
    ------
    ConfigError
        An option is not known.
    """
    text = configuration.text("backendOptions")
    if not text:
        return configuration
    origin = configuration.origin("backendOptions")
    try:
        values = find_service(configuration.service, origin=configuration.service_origin).backend_options(text)
    except ConfigError as error:
        raise ConfigError(error.message, origin=origin, hint=error.hint) from error
    return configuration.with_layer(
        layer_from_mapping({"bps_cmdline": dict(values)}, "backendOptions", LayerRank.COMMAND_LINE)
    )


@contextmanager
def _noted(problems: list[ConfigError] | None) -> Iterator[None]:
    """Go on behind an error, where somebody takes it."""
    try:
        yield
    except ConfigError as error:
        if problems is None:
            raise
        problems.append(error)


def current_directory() -> Path:
    """Where we are.

    Raises
    ------
    FilesError
        It was removed.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise FilesError(
            "the current directory is gone: it was removed or moved", hint="Go to another one: cd ~"
        ) from None


def _refuse_odd_name(path: Path) -> None:
    """Refuse a path that is no text: run directories hold text, and name the file it came from in many places."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"the path '{path}' is not UTF-8 text", hint="Rename what is not, or use a locale such as C.UTF-8."
        ) from None


def _computed(path: Path, now: float) -> Layer:
    values = {
        "bps_defined": {"timestamp": timestamp(now)},
        "operator": user_name(),
        "payloadName": path.stem,
    }
    return layer_from_mapping(values, "computed", LayerRank.DEFAULTS)


def _default_site(site: str) -> list[Layer]:
    # As a value it is found by whoever searches; one of a task's own, or any other, wins over it.
    return [layer_from_mapping({"computeSite": site}, "computed", LayerRank.DEFAULTS)] if site else []


def _service_layer(service: str) -> list[Layer]:
    short = short_name(service)
    if short not in BUILT_IN:
        return []
    return [_shipped_layer(short, LayerRank.SERVICE, "etc", "wms", f"{short}.yaml")]


def _shipped_layer(name: str, rank: LayerRank, *parts: str) -> Layer:
    return Layer(name, rank, read_yaml(shipped(*parts), rank=rank))


def _checked(configuration: Configuration) -> list[Finding]:
    """The warnings; errors are raised, all in one."""
    from longshore.app.lint import lint_configuration, refusal  # which leans on this module

    findings = lint_configuration(configuration)
    if error := refusal(findings):
        raise error
    return [finding for finding in findings if finding.severity is Severity.WARNING]
