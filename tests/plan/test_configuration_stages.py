"""A configuration is loaded in one descent: each stage is entered once, and each layer is merged once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.progress_notes import ProgressNotes

from longshore.config.layers import Overrides
from longshore.plan.configuration import Draft, ResolvedConfiguration, read_draft
from longshore.plan.resolved_run import ResolvedRun, resolve_run

STAGES = (
    "read_layers",
    "make_draft",
    "Configuration.at_site",
    "lint_configuration",
    "generate",
    "resolve_configuration",
    "site_profile",
    "service_context",
)
FILES = {
    "run.yaml": "includeConfigs: more.yaml\nsitePath: sites\nproject: p\n",
    "more.yaml": "queue: q\n",
    "home/longshore/longshore.yaml": "campaign: c\n",
    "sites/campus.yaml": "service: local\nmodules: [gcc]\n",
    "sites/batch.yaml": "service: htcondor\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/home")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def resolve_at(site: str) -> ResolvedRun:
    return resolve_run(Path("run.yaml"), Overrides({"computeSite": site}), now=0.0, progress=ProgressNotes())


def counted(load: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """How often each function of the package was called, and each layer was merged."""
    calls: Counter[str] = Counter()
    merged: Counter[str] = Counter()

    def see(frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        if event != "call" or "longshore" not in code.co_filename:
            return
        calls[code.co_qualname] += 1
        if code.co_qualname == "LayerStack.with_layers":
            merged.update(each.name for each in frame.f_locals["layers"])
        elif code.co_qualname == "merge_over":
            merged[frame.f_locals["layer"].name] += 1

    sys.setprofile(see)
    try:
        load()
    finally:
        sys.setprofile(None)
    return calls, merged


def test_each_stage_is_entered_once() -> None:
    calls, _ = counted(lambda: resolve_at("campus"))
    assert {stage: calls[stage] for stage in STAGES} == dict.fromkeys(STAGES, 1)


def test_each_layer_is_merged_once() -> None:
    calls, merged = counted(lambda: resolve_at("campus"))
    assert merged == Counter(
        {
            "defaults": 1,
            f"{Path('home').absolute()}/longshore/longshore.yaml": 1,
            "environment": 1,
            "more.yaml": 1,
            "run.yaml": 1,
            "command line": 1,
            "--set": 1,
            "campus": 1,
            "bps_defined": 1,
            # Two of that name: what follows from the machine and the time, and the name of the site.
            "computed": 2,
        }
    )
    # Without the site, which chooses it; and with the site.
    assert calls["LayerStack.root"] == 2


def test_defaults_of_a_service_take_one_more_tree() -> None:
    calls, merged = counted(lambda: read_draft(Path("run.yaml"), Overrides({"computeSite": "batch"}), now=0.0))
    assert set(merged.values()) == {1, 2}
    assert [name for name, number in merged.items() if number == 2] == ["computed"]
    assert merged["htcondor"] == 1
    # The site names the service, and that brings defaults.
    assert calls["LayerStack.root"] == 3


def test_stages_have_types() -> None:
    draft = read_draft(Path("run.yaml"), Overrides({"computeSite": "campus"}), now=0.0)
    run = resolve_at("campus")
    assert type(draft) is Draft
    assert type(run.configuration) is ResolvedConfiguration
    assert (draft.site, draft.text("uniqProcName")) == ("campus", "")
    assert run.configuration.text("uniqProcName").startswith("u_")
    assert run.paths.root.is_absolute()


def test_another_site_keeps_what_was_resolved() -> None:
    first = resolve_at("campus").configuration.with_values({"qgraphId": "7"})
    other = first.at_site("local")
    assert type(other) is ResolvedConfiguration
    assert (other.site, other.text("qgraphId")) == ("local", "7")
    assert other.text("uniqProcName") == first.text("uniqProcName")
    assert "modules" in first.resolved_site.settings
    assert "modules" not in other.resolved_site.settings
