"""A new run keeps results of another user's run, except outputs that the system lets nobody else link."""

from __future__ import annotations

import os
from pathlib import Path

from tests.two_users.accounts import Account

PIPELINE = """\
pipeline:
  tasks:
    inside: {{command: "echo in > {{a}}", outputs: {{a: "{{submitPath}}/a"}}}}
    outside: {{command: "echo out >> {folder}/notes; echo out > {{b}}", outputs: {{b: "{folder}/b"}}}}
"""


def write_pipeline(user: Account, folder: Path) -> Path:
    path = user.home / "run.yaml"
    path.write_text(PIPELINE.format(folder=folder), "utf-8")
    os.chown(path, user.uid, user.gid)
    return path


def test_an_output_of_another_user_that_cannot_be_linked_is_made_again(ann: Account, bob: Account) -> None:
    done = ann("submit", write_pipeline(ann, ann.home), "--wait", "--json")
    assert done.returncode == 0, done.stderr
    earlier = Path(done.json["submit_dir"])
    # From the same directory: commands run there.
    again = (
        "submit",
        write_pipeline(bob, ann.home),
        "--reuse",
        earlier,
        "--set",
        f"submitPath={bob.home}/new",
        "--json",
    )
    looked = bob(*again, "--dry-run", cwd=ann.home)
    assert looked.returncode == 0, looked.stderr
    because = {job["name"]: job["because"] for job in looked.json["jobs"]}
    assert "belongs to another user, and cannot be linked" in because["inside"]
    assert "it succeeded" in because["outside"]
    ran = bob(*again, "--wait", cwd=ann.home)
    assert ran.returncode == 0, ran.stderr
    own = Path(ran.json["submit_dir"], "a")
    assert (own.read_text("utf-8"), own.stat().st_uid) == ("in\n", bob.uid)
    assert (ann.home / "notes").read_text("utf-8") == "out\n", "what lies outside stays"
