"""Search path and reader of site profiles: command line, user, system, installed packages, and Longshore's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from longshore.config.includes import SourceFile, load_layers
from longshore.config.merge import LayerRank, Node, drop_deleted_keys, overlay, plain_map
from longshore.config.plugins import SERVICES, SITES, Plugin, all_plugins, built_in_plugins, shipped_path
from longshore.errors import ConfigError, Origin
from longshore.model.values import YamlValue
from longshore.sites.profile import SiteProfile
from longshore.system.host import system_folders, user_folder

_HEAD_KEYS: Final = ("service", "inherits", "hosts", "title")
_TOP_LEVEL_KEY = re.compile(rb"^(?P<key>[A-Za-z_]\w*)[ \t]*:(?=\s)", re.MULTILINE)


class SiteFolderKind(StrEnum):
    """Kinds of folders with site profiles, strongest first."""

    COMMAND_LINE = "site path"
    USER = "user"
    SYSTEM = "system"
    INSTALLED = "installed"
    PACKAGE = "package"


class SiteFile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile's file that was found but not yet read."""

    name: str
    path: Path
    place: SiteFolderKind

    @property
    def personal(self) -> bool:
        """Whether the folder belongs to a user and not to an operator."""
        return self.place in {SiteFolderKind.COMMAND_LINE, SiteFolderKind.USER}


class ProfileHead(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a profile that a list of sites shows."""

    service: str = ""
    inherits: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    title: str = ""


_MAX_NAME_B: Final = 255 - len(".yaml")
"""Longest name of a profile, in bytes, that file systems can hold."""


class SitePath:
    """Search path of site profiles.

    `given` holds the directories of ``--site-path``, strongest first; `env` the environment variables.
    """

    def __init__(self, given: Sequence[Path], env: Mapping[str, str]) -> None:
        self._command_line_folders = tuple(given)
        self._env = env
        self._roots: dict[Path, tuple[Node, tuple[SourceFile, ...]]] = {}
        self._heads: dict[Path, ProfileHead] = {}
        self.files: dict[Path, SourceFile] = {}
        """Every file that was read, includes too, except those that Longshore ships."""

    def folders(self) -> Iterator[tuple[SiteFolderKind, Path]]:
        """Iterate over the folders, strongest first."""
        yield from ((SiteFolderKind.COMMAND_LINE, folder) for folder in self._command_line_folders)
        yield SiteFolderKind.USER, user_folder(self._env) / "sites"
        yield from ((SiteFolderKind.SYSTEM, folder / "sites") for folder in system_folders(self._env))
        yield from ((SiteFolderKind.INSTALLED, folder) for folder in self._installed_folders)
        yield SiteFolderKind.PACKAGE, shipped_path("config", "sites")
        yield from (
            (SiteFolderKind.PACKAGE, folder) for folder in _plugin_site_folders(built_in_plugins(SERVICES).values())
        )

    def find(self, name: str) -> SiteFile | None:
        """Find the strongest profile of a name; installed packages are searched only when needed."""
        if not name or "/" in name or "\0" in name or name.startswith(".") or len(os.fsencode(name)) > _MAX_NAME_B:
            return None
        for place, folder in self.folders():
            path = folder / f"{name}.yaml"
            if path.is_file():
                return SiteFile(name=name, path=path, place=place)
        return None

    @cached_property
    def all(self) -> Mapping[str, SiteFile]:
        """Find the strongest profile of each name, sorted by name; reads none of them."""
        found: dict[str, SiteFile] = {}
        for place, folder in self.folders():
            for file in _yaml_files(folder):
                name = file.removesuffix(".yaml")
                found.setdefault(name, SiteFile(name=name, path=folder / file, place=place))
        return dict(sorted(found.items()))

    def profile(self, file: SiteFile) -> SiteProfile:
        """Read a profile and its includes; keys to delete are still marked, because they may be inherited.

        Raises `ConfigError` when it is unreadable or no YAML.
        """
        if file.path not in self._roots:
            loaded = load_layers(file.path, env=self._env, rank=LayerRank.SITE)
            root = Node({}, Origin(str(file.path), 1, 1, LayerRank.SITE.label))
            for layer in loaded.layers:
                root = overlay(root, layer.root)
            self._roots[file.path] = root, loaded.files
            if file.place is not SiteFolderKind.PACKAGE:
                self.files |= {each.path: each for each in loaded.files}
        return SiteProfile(name=file.name, root=self._roots[file.path][0], personal=file.personal)

    def hosts(self, file: SiteFile) -> tuple[str, ...]:
        """Read the host patterns of a profile; a profile without any is not parsed in full.

        Raises `ConfigError` when the file is unreadable or no YAML.
        """
        try:
            if b"hosts" not in file.path.read_bytes():
                return ()
        except OSError as error:
            raise ConfigError(f"'{file.path}' cannot be read: {error.strerror}") from error
        return self.head(file).hosts

    def head(self, file: SiteFile) -> ProfileHead:
        """Read the head of a profile, parsing no more of the file than needed.

        Raises `ConfigError` when the file is unreadable or no YAML.
        """
        if file.path not in self._heads:
            try:
                text = file.path.read_bytes()
            except OSError as error:
                raise ConfigError(f"'{file.path}' cannot be read: {error.strerror}") from error
            given = _parse_head(text)
            self._heads[file.path] = _make_head(
                plain_map(drop_deleted_keys(self.profile(file).root)) if given is None else given
            )
        return self._heads[file.path]

    @cached_property
    def _installed_folders(self) -> tuple[Path, ...]:
        folders: list[Path] = []
        for _, plugin in sorted(all_plugins(SITES).items()):
            try:
                # The package is located, not imported: profiles are files, and the code beside them need not run.
                spec = find_spec(plugin.module)
            except (ImportError, ValueError, AttributeError) as error:
                raise ConfigError(f"the sites of the package '{plugin.module}' are not there: {error}") from error
            folders += map(Path, (spec.submodule_search_locations or ()) if spec else ())
        return (
            *folders,
            *_plugin_site_folders(each for each in all_plugins(SERVICES).values() if not each.is_built_in),
        )


def _plugin_site_folders(plugins: Iterable[Plugin]) -> tuple[Path, ...]:
    """Folders in which the packages of services ship profiles, without duplicates."""
    return tuple(dict.fromkeys(plugin.folder / "sites" for plugin in plugins if plugin.folder))


def _yaml_files(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".yaml") and not name.startswith("."))
    except OSError:
        return []


_YAML_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _parse_head(text: bytes) -> dict[str, YamlValue] | None:
    """Parse only the head's keys; ``None`` when that needs the whole file."""
    keys = list(_TOP_LEVEL_KEY.finditer(text))
    if not keys or b"includeConfigs" in text or b"!include" in text:
        return None
    ends = [*(key.start() for key in keys[1:]), len(text)]
    pieces = [text[key.start() : end] for key, end in zip(keys, ends, strict=True) if key["key"].decode() in _HEAD_KEYS]
    try:
        given = yaml.load(b"".join(pieces) or b"{}", Loader=_YAML_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError):
        # For example an alias whose anchor is in another part of the file.
        return None
    return given if isinstance(given, dict) else None


def _make_head(given: Mapping[str, YamlValue]) -> ProfileHead:
    return ProfileHead(
        service=str(given.get("service") or ""),
        inherits=_to_texts(given.get("inherits")),
        hosts=_to_texts(given.get("hosts")),
        title=str(given.get("title") or ""),
    )


def _to_texts(value: YamlValue) -> tuple[str, ...]:
    """Convert a text or a list of texts to a tuple."""
    return tuple(map(str, value)) if isinstance(value, list) else (value,) if isinstance(value, str) else ()
