"""Cases of site profiles, and of the site sections of a configuration."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from tests.fuzz.configurations import dump, value_for
from tests.fuzz.graphs import TRACE, small_trace
from tests.fuzz.kind import ROOT, Files, Kind, Step
from tests.fuzz.mutate import alter_tree, mutate_tree
from tests.progress_notes import ProgressNotes

from longshore.plan.lint_file import lint_file
from longshore.plan.stages import Stage, run_stages
from longshore.sites.site import list_sites, show_site

_NAMES = ("campus", "debug", "family")


@cache
def _profiles() -> tuple[Any, ...]:
    paths = [*ROOT.glob("config/sites/*.yaml"), *ROOT.glob("python/longshore/services/*/sites/*.yaml")]
    paths.append(ROOT / "etc/starters/site.yaml")
    trees = (yaml.safe_load(path.read_text("utf-8")) for path in sorted(paths))
    return tuple(tree for tree in trees if isinstance(tree, dict))


@cache
def _schema() -> Any:
    return json.loads((ROOT / "etc/schema/site_profile.json").read_text("utf-8"))


def _make(chance: Random) -> Files:
    """Make a profile and two more, which it may inherit, and a configuration that chooses it."""
    files: Files = {}
    keys = {name: entry for name, entry in _schema()["properties"].items() if isinstance(entry, dict)}
    for name in _NAMES:
        tree = copy.deepcopy(chance.choice(_profiles()))
        tree.pop("inherits", None)
        if chance.random() < 0.4:
            # A later name, mostly: otherwise they inherit each other in a ring.
            others = _NAMES[_NAMES.index(name) + 1 :] if chance.random() < 0.9 else _NAMES
            tree["inherits"] = chance.choice([*others, "slurm-cluster"])
        for _ in range(chance.choice((0, 0, 1, 2))):
            key = chance.choice(list(keys))
            tree[key] = value_for(keys[key], chance)
        if name == _NAMES[0] and chance.random() < 0.7:
            is_form_kept = chance.random() < 0.7
            tree = alter_tree(tree, chance) if is_form_kept else mutate_tree(tree, _profiles(), chance)
        files[f"sites/{name}.yaml"] = dump(tree, chance)
    run: dict[str, Any] = {"wfformat": TRACE, "sitePath": ["sites"], "computeSite": _NAMES[0]}
    if chance.random() < 0.3:
        run["site"] = {_NAMES[0]: mutate_tree(chance.choice(_profiles()), _profiles(), chance)}
    return {**files, "run.yaml": dump(run, chance), TRACE: small_trace(chance)}


def _steps(_: Files) -> Iterator[Step]:
    path = Path("run.yaml")
    yield lambda: show_site(_NAMES[0], ["sites"])
    yield lambda: list_sites(["sites"])
    yield lambda: lint_file(Path("sites", f"{_NAMES[0]}.yaml"), now=0.0)
    yield lambda: lint_file(path, now=0.0)
    yield lambda: run_stages(path, Stage.TRANSFORM, progress=ProgressNotes())


SITE = Kind(make=lambda chance, _: _make(chance), steps=_steps)
