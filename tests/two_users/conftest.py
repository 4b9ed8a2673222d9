"""Fixtures of the suite with several users; it needs root, who alone may start processes of other users."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.two_users.accounts import Account, find_python
from tests.two_users.runs import kill_processes_of

MakeAccount = Callable[..., Account]
"""Makes an account from its user number, group number and further groups."""

_ANN = 200_000 + 2 * (os.getpid() % 100_000)
_BOB = _ANN + 1
"""Numbers that no user database has, and no other process of the tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of them: each command of another user starts an interpreter."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.full)


@pytest.fixture(autouse=True)
def _retries(retries_of_bps: None) -> None:
    """Most tests say how often they retry by ``numberOfRetries`` alone."""


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="longshore-users-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def common_python(open_folder: Path) -> Path:
    """An interpreter with the package for all users."""
    if os.geteuid() != 0:
        pytest.skip("only root may start processes of other users")
    python = find_python(open_folder)
    if python is None:
        pytest.skip("other users cannot start an interpreter with the package, not even a copy")
    return python


@pytest.fixture
def place(open_folder: Path) -> Iterator[Path]:
    """A folder of the test's own that every user may enter."""
    folder = Path(tempfile.mkdtemp(dir=open_folder))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_account(place: Path, common_python: Path) -> MakeAccount:
    """Make a user of the machine with a home that others may look into."""

    def make(uid: int, gid: int, *groups: int) -> Account:
        home = place / f"home-{uid}"
        home.mkdir(mode=0o755)
        os.chown(home, uid, gid)
        return Account(uid=uid, gid=gid, groups=groups, home=home, python=common_python)

    return make


@pytest.fixture
def ann(make_account: MakeAccount) -> Iterator[Account]:
    """An ordinary user."""
    user = make_account(_ANN, _ANN)
    yield user
    kill_processes_of(user)


@pytest.fixture
def bob(make_account: MakeAccount) -> Iterator[Account]:
    """Another ordinary user."""
    user = make_account(_BOB, _BOB)
    yield user
    kill_processes_of(user)


@pytest.fixture
def root(make_account: MakeAccount) -> Account:
    """The superuser, whom no permission stops."""
    return make_account(0, 0)


@pytest.fixture
def member(make_account: MakeAccount) -> Account:
    """A user with a name, and a group of the same number as the user's first."""
    user = next(user for user in pwd.getpwall() if user.pw_uid != 0)
    return make_account(user.pw_uid, user.pw_gid)
