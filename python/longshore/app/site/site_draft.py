"""Configuration at a site that options choose, with or without a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from longshore.app.configure.configuration import Draft, make_draft, read_draft
from longshore.app.configure.layers import Overrides, read_layers_without_file
from longshore.errors import UsageError
from longshore.system.reading import can_see_folder


def draft_at_site(service: str | None, *, path: Path | None, site: str, site_path: Sequence[str], now: float) -> Draft:
    """Read a configuration at a site, or the site alone where there is no file; parameters are those of `ping`.

    Raises `ConfigError` if a file cannot be read or the site is wrong, `UsageError` if a folder is missing.
    """
    overrides = site_overrides(service, site, site_path)
    if path is not None:
        return read_draft(path, overrides, now=now)
    draft = make_draft(read_layers_without_file(overrides, now=now))
    if draft.site_errors:
        raise draft.site_errors[0]
    return draft


def site_overrides(service: str | None, site: str, site_path: Sequence[str]) -> Overrides:
    """Return the options that choose a service, a site and folders; raises `UsageError` if a folder is missing."""
    for folder in site_path:
        if not can_see_folder(Path(folder)):
            raise UsageError(f"'--site-path' names '{folder}', which is no directory")
    given = {"wmsServiceClass": service, "computeSite": site, "sitePath": os.pathsep.join(site_path)}
    return Overrides({key: value for key, value in given.items() if value}, imports_code=False)
