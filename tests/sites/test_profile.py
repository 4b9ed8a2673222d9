"""Profiles inherit, become layers, and match hosts."""

from __future__ import annotations

import pytest

from longshore.config.merge import Node, plain_value
from longshore.config.yaml_text import parse_yaml
from longshore.errors import ConfigError, Origin
from longshore.sites.profile import SiteProfile, host_matches, only_site, profile_layer, resolve_profile


def profiles(**texts: str) -> dict[str, SiteProfile]:
    return {
        name: SiteProfile(name=name, root=parse_yaml(text, f"{name}.yaml"), personal=name.startswith("my"))
        for name, text in texts.items()
    }


def resolved(name: str, **texts: str) -> Node:
    known = profiles(**texts)
    return resolve_profile(known[name], lambda parent, _: known[parent]).root


def test_own_keys_win_and_maps_merge() -> None:
    root = resolved(
        "b",
        a="{service: slurm, slurm: {x: 1, y: 1}, partitions: [{name: p}], requestCpus: 2}",
        b="{inherits: a, slurm: {y: 2}, partitions: [{name: q}]}",
    )
    found = plain_value(root)
    assert found == {
        "inherits": "a",
        "service": "slurm",
        "slurm": {"x": 1, "y": 2},
        "partitions": [{"name": "q"}],
        "requestCpus": 2,
    }


def test_inherited_key_can_be_deleted() -> None:
    a = "{modules: [gcc], limits: {cpus: 4, running: 5}, slurm: {x: 1, y: 1}}"
    known = profiles(a=a, b="{inherits: a, modules: !delete , limits: {cpus: !delete }, slurm: {x: !delete }}")
    whole = resolve_profile(known["b"], lambda parent, _: known[parent])
    assert plain_value(whole.root) == {"inherits": "a", "limits": {"running": 5}, "slurm": {"y": 1}}
    limits = whole.limits(personal=False)
    assert limits
    assert plain_value(limits) == {"running": 5}


def test_later_parent_wins() -> None:
    root = resolved("c", a="{x: 1, y: 1}", b="{y: 2}", c="{inherits: [a, b]}")
    assert plain_value(root) == {"inherits": ["a", "b"], "x": 1, "y": 2}


def test_hosts_and_titles_are_not_inherited() -> None:
    assert plain_value(resolved("b", a="{hosts: [h], title: A, x: 1}", b="inherits: a")) == {"inherits": "a", "x": 1}


def test_a_ring_is_named_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml:1:11: the site 'b' inherits itself: b -> c -> a -> b") as caught:
        resolved("b", a="inherits: b", b="inherits: c", c="inherits: a")
    assert caught.value.origin == Origin("a.yaml", 1, 11, "file")


@pytest.mark.parametrize("text", ["inherits: [null]", "inherits: [a, [b]]", "inherits: {a: 1}"])
def test_invalid_parent_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="'inherits' must name a site or a list of sites"):
        resolved("b", a="{}", b=text)


def test_profile_layer_uses_bps_names_without_profile_only_keys() -> None:
    root = profile_layer(
        resolved("a", a="{service: slurm, account: me, limits: {cpus: 1}, hosts: [h], title: T, queue: q}")
    )
    assert plain_value(root) == {"wmsServiceClass": "slurm", "accountingGroup": "me", "queue": "q"}


def test_the_longer_name_wins() -> None:
    root = profile_layer(resolved("a", a="{service: slurm, wmsServiceClass: sge, account: null}"))
    assert plain_value(root) == {"wmsServiceClass": "sge"}


def test_limits_of_users_and_operators_stay_apart() -> None:
    known = profiles(
        a="limits: {cpus: 4, running: 5}", b="{inherits: a, limits: {cpus: 8}}", my="{inherits: b, limits: {cpus: 99}}"
    )
    whole = resolve_profile(known["my"], lambda parent, _: known[parent])
    operators, own = whole.limits(personal=False), whole.limits(personal=True)
    assert operators
    assert own
    assert plain_value(operators) == {"cpus": 8, "running": 5}
    assert plain_value(own) == {"cpus": 99}


@pytest.mark.parametrize(
    ("host", "pattern", "does"),
    [
        ("login1.campus.edu", "login*.campus.edu", True),
        ("login1.campus.edu", "login1", True),
        ("LOGIN1", "login?", True),
        ("login1.campus.edu", "campus.edu", False),
        ("login12", "login[0-9]", False),
    ],
)
def test_host_patterns_match_names(host: str, pattern: str, *, does: bool) -> None:
    assert host_matches(host, ["nothing", pattern]) is does


def test_several_matching_sites_are_reported() -> None:
    assert only_site("h", []) is None
    assert only_site("h", [("a", "a.yaml")]) == "a"
    with pytest.raises(ConfigError, match=r"'h' belongs to more than one site: 'a' \(1\.yaml\) and 'b' \(2\.yaml\)"):
        only_site("h", [("b", "2.yaml"), ("a", "1.yaml")])
