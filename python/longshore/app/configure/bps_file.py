"""Recognition of configurations that were written for BPS, where a site needs no description."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from longshore.app.configure.service_lookup import BPS_PACKAGE
from longshore.app.payload.lsst import is_lsst
from longshore.config.values.scope import Scope
from longshore.config.values.search import Config


def is_bps_file(config: Config, *, site: str, env: Mapping[str, str], folder: Path) -> bool:
    """Tell whether a configuration names BPS's service, or has a payload of LSST; `is_lsst` has the parameters."""
    service = str(config.search("wmsServiceClass", Scope(current={"curr_site": site}, env=env)).value or "")
    return service.startswith(BPS_PACKAGE) or is_lsst(config, site=site, env=env, folder=folder)
