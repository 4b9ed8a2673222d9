"""The engine's settings survive the way through their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.contract.service import Context, RunPaths, Site
from longshore.engine.run_settings import read_settings
from longshore.engine.settings import SETTINGS_PATH, EngineSettings, render_settings
from longshore.errors import RunUnreadableError
from longshore.rundir.run_directory import write_rendered


def written(root: Path, settings: dict[str, Any]) -> RunPaths:
    run = RunPaths(root)
    ctx = Context(settings=settings, site=Site(name="here"), paths=run, templates={})
    assert len(write_rendered(run, [render_settings(ctx)])) == 1
    return run


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"retries_on_lost": 0, "grace_s": 2.5},
        {"executor": {"pool": {"cpus": 3, "memory": 2**33}, "words": ["a", "ü"]}},
    ],
)
def test_what_is_written_is_read(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert read_settings(written(tmp_path, settings)) == msgspec.convert(settings, EngineSettings)


def test_the_same_settings_give_the_same_text(tmp_path: Path) -> None:
    texts = set()
    for number, names in enumerate(("ab", "ba")):
        run = written(tmp_path / str(number), {"executor": dict.fromkeys(names, 1)})
        texts.add((run.root / SETTINGS_PATH).read_text("utf-8"))
    assert len(texts) == 1
    assert texts.pop().endswith("}\n")


@pytest.mark.parametrize("text", [None, b"", b"{", b"[]", b'{"grace_s": "long"}', b'{"executor": {"\xff": 1}}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: bytes | None) -> None:
    path = tmp_path / SETTINGS_PATH
    path.parent.mkdir()
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(RunUnreadableError, match=r"wms/engine\.json' cannot be read"):
        read_settings(RunPaths(tmp_path))
