"""The mount that tests put under processes: what others write is seen late, and nothing while it is hidden."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.mount import Mount

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.no_cover]

READ = """
import os, sys
try:
    file = os.open(sys.argv[1], os.O_RDONLY)
    print(os.pread(file, 100, 0).decode())
except OSError as error:
    print(error.errno)
"""


def read(mount: Mount, path: Path) -> str:
    """Read a file in a process on the mount's host."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        env={**os.environ, **mount.variables()},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def make_mount(root: Path, *, late_s: float = 0.0, error: int = 0) -> Mount:
    (root / "mail").mkdir()
    return Mount(root / "mail", root / "gate", late_s=late_s, error=error)


def test_what_others_write_is_seen_later(tmp_path: Path) -> None:
    mount = make_mount(tmp_path, late_s=3600.0)
    path = mount.folder / "file"
    path.write_text("whole", "utf-8")
    assert read(mount, path) == str(errno.ENOENT)
    assert read(mount, mount.folder / "missing") == str(errno.ENOENT)
    os.utime(path, (0, 0))
    assert read(mount, path) == "whole"


def test_a_host_sees_at_once_what_it_wrote_itself(tmp_path: Path) -> None:
    mount = make_mount(tmp_path, late_s=3600.0)
    words = "import os; f = os.open('own', os.O_RDWR | os.O_CREAT); os.pwrite(f, b'x', 0); print(os.pread(f, 1, 0))"
    env = {**os.environ, **mount.variables()}
    command = [sys.executable, "-c", words]
    done = subprocess.run(command, cwd=mount.folder, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "b'x'"


def test_a_hidden_mount_fails_calls(tmp_path: Path) -> None:
    mount = make_mount(tmp_path, error=errno.ESTALE)
    path = mount.folder / "file"
    path.write_text("whole", "utf-8")
    outside = tmp_path / "outside"
    outside.write_text("here", "utf-8")
    with mount.hidden():
        assert read(mount, path) == str(errno.ESTALE)
        assert read(mount, outside) == "here"
    assert read(mount, path) == "whole"


def test_a_hidden_mount_lets_calls_hang(tmp_path: Path) -> None:
    mount = make_mount(tmp_path)
    path = mount.folder / "file"
    path.write_text("whole", "utf-8")
    outside = tmp_path / "outside"
    outside.write_text("here", "utf-8")
    begin = "import os, sys; print('begins', flush=True)\n"
    with mount.hidden():
        process = subprocess.Popen(
            [sys.executable, "-c", begin + READ, str(path)],
            env={**os.environ, **mount.variables()},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        # Another process does as much meanwhile, and comes to its end.
        assert read(mount, outside) == "here"
        assert process.poll() is None
    assert process.communicate()[0].strip() == "whole"
