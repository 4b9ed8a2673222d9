"""The documented transfer commands, with the programs that they name, on odd names and directories.

The other host is this one: a stand-in for ssh starts the programs that ssh would start there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from longshore.config.merge import to_node
from longshore.config.staging import read_staging
from longshore.errors import Origin

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "longshore-stage"
PAGE = PROGRAM.parents[1] / "doc" / "how-to" / "stage-files.md"
HERE = Origin("site.yaml")
NAMES = ("plain", "a b", "it's", "$HOME", "star*", "back\\slash", "-n")
SFTP = next((path for path in ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server") if Path(path).exists()), "")
COMMANDS = {
    "rsync": "rsync -a {source} {target}",
    "rsync from another host": "rsync -a -s -e SSH store:{source} {target}",
    "scp": "scp -q -r {source} {target}",
    "scp from another host": "scp -q -r -S SSH store:{source} {target}",
}


@pytest.fixture(params=COMMANDS.values(), ids=list(COMMANDS))
def command(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A transfer command whose programs are installed."""
    text: str = request.param
    program = text.split(maxsplit=1)[0]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    ssh = tmp_path / "ssh"
    if program == "scp" and "SSH" in text:
        if not SFTP:
            pytest.skip("the server of sftp, which scp starts on the other host, is not installed")
        ssh.write_text(f"#!/bin/sh\nexec {SFTP}\n", "utf-8")
    else:
        # The words of rsync's options come before the name of the host.
        ssh.write_text('#!/bin/sh\nwhile [ "$1" != store ]; do shift; done\nshift\nexec sh -c "$*"\n', "utf-8")
    ssh.chmod(0o755)
    return text.replace("SSH", str(ssh))


def test_the_page_has_these_commands() -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    for command in (text for name, text in COMMANDS.items() if name != "scp"):
        assert command.replace("-e SSH ", "").replace("-S SSH ", "") in page


def escaped(path: Path | str) -> str:
    return str(path).replace("\\", "\\\\")


def test_files_and_directories_are_transferred_under_their_names(command: str, tmp_path: Path) -> None:
    there, made = tmp_path / "there", tmp_path / "made"
    (there / "a tree" / "below").mkdir(parents=True)
    (there / "a tree" / "below" / "leaf").write_text("leaf", "utf-8")
    for name in NAMES:
        (there / name).write_text(name, "utf-8")
    rules = read_staging(to_node("scratch", HERE), to_node(command, HERE))
    assert rules is not None
    every = (*NAMES, "a tree")
    table = [f"t\t{escaped(rules.fetch)}", *(f"i\t{escaped(there / name)}\t{escaped(name)}" for name in every)]
    # Outputs go to a directory that the host of the job sees.
    table += [f"t\t{escaped(rules.send)}", *(f"o\t{escaped(name)}\t{escaped(made / name)}" for name in every)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["/bin/sh", str(PROGRAM), "-n", "7.1", "-t", "".join(f"{line}\n" for line in table), "true"]
    ran = subprocess.run(
        words, env={**os.environ, "TMPDIR": str(scratch)}, check=False, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert {path.name for path in made.iterdir()} == set(every)
    assert [(made / name).read_text("utf-8") for name in NAMES] == list(NAMES)
    assert [path.name for path in (made / "a tree").rglob("*")] == ["below", "leaf"]
