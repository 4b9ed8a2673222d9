"""Owners of runs: whose directory it is, and whose orders its engine takes."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.rundir.run_directory import RunOwner, accepts_order_of, is_own_run, read_owner

ROOT = 0
STRANGER = 2**31 - 7
"""A number that no user has."""


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "run")
    found.root.mkdir()
    return found


def owner_of_run(*, uid: int, gid: int = STRANGER, is_shared: bool = False) -> RunOwner:
    return RunOwner(uid=uid, gid=gid, device=1, inode=1, is_shared=is_shared)


def test_an_engine_takes_orders_of_the_owner_of_its_own_user_and_of_root() -> None:
    owner = owner_of_run(uid=STRANGER - 1)
    assert all(accepts_order_of(owner, uid) for uid in (STRANGER - 1, os.geteuid(), ROOT))
    assert not accepts_order_of(owner, STRANGER)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_member_of_the_group_gives_orders_to_a_shared_run_only(*, is_shared: bool) -> None:
    user = next(user for user in pwd.getpwall() if user.pw_uid not in {ROOT, os.geteuid()})
    owner = owner_of_run(uid=STRANGER, gid=user.pw_gid, is_shared=is_shared)
    assert accepts_order_of(owner, user.pw_uid) is is_shared


def test_a_stranger_to_the_group_gives_no_orders_to_a_shared_run() -> None:
    user = next(user for user in pwd.getpwall() if user.pw_uid not in {ROOT, os.geteuid()})
    others = next(group.gr_gid for group in grp.getgrall() if group.gr_gid not in groups_of(user))
    assert not accepts_order_of(owner_of_run(uid=STRANGER, gid=others, is_shared=True), user.pw_uid)


def groups_of(user: pwd.struct_passwd) -> list[int]:
    return os.getgrouplist(user.pw_name, user.pw_gid)


@pytest.mark.parametrize(("mode", "is_shared"), [(0o770, True), (0o2775, True), (0o750, False), (0o777, False)])
def test_a_run_is_shared_if_only_its_group_may_write(run: RunPaths, mode: int, *, is_shared: bool) -> None:
    run.root.chmod(mode)
    assert read_owner(run.root).is_shared is is_shared


def test_a_run_that_cannot_be_looked_at_is_not_ones_own(run: RunPaths) -> None:
    assert is_own_run(run.root)
    assert not is_own_run(run.root / "missing")
