"""Links by run id: made once, never taken from another run, and no reason to fail a submission."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.system.links import link_by_id


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "one"
    path.mkdir(parents=True)
    return path


def test_a_link_leads_to_the_run(tmp_path: Path, target: Path) -> None:
    link = tmp_path / "new" / "links" / "k7f3a"
    assert link_by_id(link.parent, "k7f3a", target) == f"Made id softlink: {link}"
    assert link.resolve() == target
    # The second time is no error.
    assert link_by_id(link.parent, "k7f3a", target) == f"Made id softlink: {link}"


def test_a_link_to_elsewhere_is_left_alone(tmp_path: Path, target: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "k7f3a").symlink_to(tmp_path / "other")
    assert "something else of that name" in link_by_id(tmp_path, "k7f3a", target)
    assert (tmp_path / "k7f3a").resolve() == tmp_path / "other"


def test_an_existing_file_is_not_replaced_by_a_link(tmp_path: Path, target: Path) -> None:
    (tmp_path / "k7f3a").write_text("precious", "utf-8")
    assert "something else of that name" in link_by_id(tmp_path, "k7f3a", target)
    assert (tmp_path / "k7f3a").read_text("utf-8") == "precious"


def test_a_link_that_leads_to_itself_is_left_alone(tmp_path: Path, target: Path) -> None:
    (tmp_path / "k7f3a").symlink_to(tmp_path / "k7f3a")
    assert "something else of that name" in link_by_id(tmp_path, "k7f3a", target)


@pytest.mark.parametrize("folder", ["/dev/null/x", "/proc/nothing/here", "x" * 300])
def test_a_failed_link_is_reported(tmp_path: Path, target: Path, folder: str) -> None:
    said = link_by_id(tmp_path / folder, "k7f3a", target)
    assert said.startswith("could not make the id softlink ")
