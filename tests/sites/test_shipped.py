"""Shipped profiles match the schema, and the schemas match each other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import longshore.services
from longshore.config.plugins import shipped_path
from longshore.config.schema import check_schema
from longshore.config.schemas import configuration_schema, profile_schema, site_schema
from longshore.errors import Origin
from longshore.sites.limits import read_limits
from longshore.sites.profile import SiteProfile, resolve_profile
from longshore.sites.profile_files import SitePath

SITE: dict[str, Any] = site_schema()
CONFIG: dict[str, Any] = configuration_schema()
NAMES = sorted(
    path.stem
    for folder in (shipped_path("config", "sites"), *Path(longshore.services.__file__).parent.glob("*/sites"))
    for path in folder.glob("*.yaml")
)
SITES = SitePath((), dict(os.environ))


def profile(name: str, _origin: Origin | None = None) -> SiteProfile:
    file = SITES.find(name)
    assert file
    return SITES.profile(file)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_holds_to_the_schema(name: str) -> None:
    resolved = resolve_profile(profile(name), profile)
    assert check_schema(resolved.root, profile_schema()) == []
    limits = resolved.root.value["limits"] if isinstance(resolved.root.value, dict) and name != "local" else None
    assert bool(read_limits(limits)) is (name != "local")


def test_a_family_of_sites() -> None:
    resolved = resolve_profile(profile("slurm-debug"), profile)
    assert isinstance(resolved.root.value, dict)
    assert resolved.root.value["service"].value == "slurm"
    assert "hosts" not in resolved.root.value, "or two sites would claim one host"
    assert read_limits(resolved.root.value["limits"])["walltime"].amount == 1800
    assert read_limits(resolved.root.value["limits"])["queued"].amount == 2000


def test_schema_describes_every_key() -> None:
    Draft202012Validator.check_schema(SITE)
    for key, entry in described(SITE, ""):
        assert entry["title"], key
        assert entry["description"].endswith((".", "write.")), key


def described(schema: dict[str, Any], place: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for key, entry in schema.get("properties", {}).items():
        found += [(f"{place}{key}", entry), *described(entry, f"{place}{key}.")]
        if isinstance(entry.get("items"), dict):
            found += described(entry["items"], f"{place}{key}[].")
    return found


def test_a_profile_may_have_any_key_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("service: local\nrequestCpus: none\npipetask: {a: {requestCpus: 2}}\n", "utf-8")
    sites = SitePath([tmp_path], dict(os.environ))
    file = sites.find("x")
    assert file
    (finding,) = check_schema(sites.profile(file).root, profile_schema())
    assert str(finding.origin).endswith("x.yaml:2:14")
