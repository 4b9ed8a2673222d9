"""A check of a profile finds all independent errors, each once, and says what it could not check."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import ConfigError
from longshore.plan.site_check import SiteCheck, check_site

WRONG = """
service: local
umask: 9z
limits: {requestCpus: many, cpus: 100000}
partitions:
  - {name: a, walltme: soon}
  - {name: b}
"""


def check(folder: Path, text: str, name: str = "here") -> SiteCheck:
    (folder / f"{name}.yaml").write_text(text, "utf-8")
    return check_site(name, [str(folder)], now=0.0)


def test_one_wrong_value_hides_no_other(tmp_path: Path) -> None:
    found = check(tmp_path, WRONG)
    places = [(each.origin.line, each.message) for each in found.problems if each.fatal and each.origin]
    assert places[:3] == [
        (3, "'umask' cannot be '9z'"),
        (4, "nothing knows the key 'limits.requestCpus'"),
        (6, "nothing knows the key 'partitions.0.walltme'"),
    ]
    # What is right is compared with the machine all the same.
    assert found.report is not None
    assert any(each.message.startswith("'limits.cpus' is 100000") for each in found.problems)
    assert (found.ok, found.exit_status) == (False, 3)


def test_an_inherited_wrong_value_has_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("service: local\numask: 9z\n", "utf-8")
    (problem,) = check(tmp_path, "inherits: base\n").problems
    assert problem.origin is not None
    assert (Path(problem.origin.file).name, problem.origin.line) == ("base.yaml", 2)


def test_an_unknown_service_is_an_error_among_others(tmp_path: Path) -> None:
    found = check(tmp_path, "service: slrum\numask: 9z\n")
    assert [each.message.partition(";")[0] for each in found.problems] == [
        "'umask' cannot be '9z'",
        "there is no service 'slrum'",
    ]
    assert found.report is None


def test_an_unknown_key_of_a_service_is_one_error_with_its_place(tmp_path: Path) -> None:
    found = check(tmp_path, "service: slurm\nslurm:\n  acount: physics\n")
    (problem,) = found.problems
    assert (problem.message, problem.fatal) == ("'slurm' has no key 'acount'", True)
    assert problem.origin is not None
    assert problem.origin.line == 3


@pytest.mark.parametrize("text", ["", "title: a site\nhosts: [login1]\n"])
def test_an_empty_profile_has_nothing_to_check(text: str, tmp_path: Path) -> None:
    found = check(tmp_path, text)
    assert (found.is_empty, found.report, found.exit_status) == (True, None, 0)
    assert [each.fatal for each in found.problems] == [False]
    assert "nothing to check" in found.problems[0].message


def test_a_profile_that_inherits_is_not_empty(tmp_path: Path) -> None:
    found = check(tmp_path, "inherits: local\n")
    assert (found.is_empty, found.ok, bool(found.report)) == (False, True, True)


def test_an_unreadable_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        check(tmp_path, "inherits: nosuch\n")
