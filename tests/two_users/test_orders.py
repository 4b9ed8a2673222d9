"""An order is from the owner of its file, and is taken from the owner of the run and the members of its group."""

from __future__ import annotations

import json
import os
import pwd
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.two_users.accounts import Account
from tests.two_users.runs import kill_processes_of, submit, submit_and_kill, wait_for


def leave(user: Account, run: Path, name: str, order: dict[str, object]) -> None:
    """Leave an order as a file of a user's own making."""
    text = json.dumps(order)
    done = user.run(
        "/bin/sh", "-c", f"printf %s '{text}' >'{run}/steer/{name}.part' && cd '{run}/steer' && mv {name}.part {name}"
    )
    assert done.returncode == 0, done.stderr


def steered(user: Account, run: Path) -> list[tuple[str, str]]:
    """Return user and kind of the interventions in the journal."""
    events: list[Any] = [json.loads(line) for line in user("events", run, "--json").stdout.splitlines()]
    return [(event["who"], event["act"]) for event in events if event["event"] == "steer"]


def start(user: Account, *, more: str = "") -> Path:
    """Start a run whose job goes on until it is cancelled."""
    run = submit(user, "sleep 600", more=more, wait=False)
    wait_for(lambda: user("status", run, "--json").json.get("counts", {}).get("RUNNING"))
    return run


def share_with(user: Account, run: Path, group: int) -> None:
    """Share a run with a group, as a site with `group` and `umask` does."""
    for folder in (run, run / "steer"):
        os.chown(folder, user.uid, group)
        folder.chmod(0o2775)


def test_an_order_of_another_user_is_refused_told_and_set_aside(ann: Account, bob: Account) -> None:
    run = start(ann)
    # A mistake of the owner's: every user may leave files here.
    (run / "steer").chmod(0o777)
    leave(bob, run, "1.json", {"who": str(ann.uid), "act": "cancel"})
    wait_for((run / "steer" / "1.refused").exists)
    assert f"the order '1.json' of the user '{bob.uid}' is refused" in (run / "engine.log").read_text("utf-8")
    assert ann("status", run).returncode == 15
    assert steered(ann, run) == []


def test_who_gave_an_order_is_the_owner_of_its_file(ann: Account) -> None:
    run = start(ann)
    leave(ann, run, "1.json", {"who": "root", "act": "pause"})
    wait_for(lambda: steered(ann, run))
    assert steered(ann, run) == [(str(ann.uid), "pause")]


def test_members_of_the_group_of_a_shared_run_give_orders(ann: Account, member: Account, bob: Account) -> None:
    run = start(ann)
    name = pwd.getpwuid(member.uid).pw_name
    assert member("pause", run).returncode == 6
    share_with(ann, run, member.gid)
    assert bob("pause", run).returncode == 6
    paused = member("pause", run, env={"LOGNAME": "root"})
    assert paused.returncode == 0, paused.stderr
    wait_for(lambda: steered(ann, run))
    assert steered(ann, run) == [(name, "pause")]
    # Who is not in the group by the user database gets no order through, wherever the file comes from.
    leave(
        replace(bob, groups=(member.gid,)),
        run,
        "1.json",
        {"who": name, "act": "cancel"},
    )
    wait_for((run / "steer" / "1.refused").exists)
    cancelled = member("cancel", run)
    assert cancelled.returncode == 0, cancelled.stderr
    assert steered(ann, run) == [(name, "pause"), (name, "cancel")]


def test_members_of_the_group_do_not_start_jobs_as_themselves(ann: Account, member: Account) -> None:
    run = submit_and_kill(ann, "sleep 600")
    share_with(ann, run, member.gid)
    for command in ("resume", "restart", "cancel"):
        refused = member(command, run)
        assert refused.returncode == 6, (command, refused.stderr)
    assert not list(run.glob("steer/*"))
    kill_processes_of(ann)


def test_a_site_shares_runs_with_a_group(ann: Account, member: Account) -> None:
    owner = replace(ann, groups=(member.gid,))
    (ann.home / "local.yaml").write_text(f"service: local\ngroup: '{member.gid}'\numask: '0002'\n", "utf-8")
    run = start(owner, more=f"sitePath: {ann.home}\n")
    status = run.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o2022) == (ann.uid, member.gid, 0o2020)
    paused = member("pause", run)
    assert paused.returncode == 0, paused.stderr
    wait_for(lambda: steered(ann, run))


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_an_order_that_is_no_file_is_refused(ann: Account, kind: str) -> None:
    run = start(ann)
    order = run / "steer" / "1.json"
    if kind == "pipe":
        ann.run("/usr/bin/mkfifo", order)
    else:
        ann.run("/bin/ln", "-s", "/dev/zero", order)
    wait_for(lambda: (run / "steer" / "1.refused").is_symlink() or (run / "steer" / "1.refused").is_fifo())
    assert "the order '1.json' is refused" in (run / "engine.log").read_text("utf-8")
    assert ann("status", run).returncode == 15
    shutil.rmtree(run / "steer")
