"""A run belongs to the user of its directory: others may look, leave no trace, and start nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.two_users.accounts import Account
from tests.two_users.runs import ACTS, LOOKS, ORDERS, kill_processes_of, submit, submit_and_kill, tree, wait_for, words


@pytest.fixture(params=["bob", "root"])
def other(request: pytest.FixtureRequest) -> Account:
    """An ordinary user, and the superuser, whom no permission stops."""
    user: Account = request.getfixturevalue(request.param)
    return user


def test_to_look_writes_nothing_into_the_run_and_registers_nothing(ann: Account, other: Account) -> None:
    run = submit(ann, "echo hello; exit 3", more="numberOfRetries: 0\n")
    shutil.rmtree(run / "cache", ignore_errors=True)
    before = tree(run)
    for command in LOOKS:
        done = other(*words(command, run))
        assert done.returncode in {0, 19}, (command, done.stderr)
    assert "hello" in other("logs", run, "t0").stdout
    assert tree(run) == before
    assert not list(other.state.glob("runs/*"))
    # The owner's own look leaves both.
    (ann.state / "runs" / f"{msgspec.json.decode((run / 'run.json').read_bytes())['id']}.json").unlink()
    ann("report", "--id", run)
    assert list(ann.state.glob("runs/*"))
    assert (run / "cache" / "report.json").exists()


def test_links_planted_in_the_cache_overwrite_nothing(ann: Account, other: Account) -> None:
    run = submit(ann, "exit 3", more="numberOfRetries: 0\n")
    target = other.home / ".bashrc"
    target.write_text("# mine\n", "utf-8")
    os.chown(target, other.uid, other.gid)
    cache = run / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    for name in ("report.json", "waiting.json", *(f".report.json.{pid}" for pid in range(1, 3000))):
        (cache / name).symlink_to(target)
    other("report", "--id", run)
    assert target.read_text("utf-8") == "# mine\n"
    # A whole folder that leads to the home of the reader.
    shutil.rmtree(cache)
    cache.symlink_to(other.home)
    before = tree(other.home)
    other("report", "--id", run)
    assert tree(other.home) == before


def test_a_command_that_acts_names_the_owner_and_the_way_out(ann: Account, root: Account) -> None:
    run = submit(ann, "exit 3", more="numberOfRetries: 0\n")
    before = tree(run)
    for command in (*ORDERS, *ACTS):
        refused = root(*words(command, run))
        assert refused.returncode == 6, (command, refused.stderr)
        assert f"'{run}' belongs to the user '{ann.uid}', and you are 'root'" in refused.stderr, command
        assert f"longshore adopt --trust {run}" in refused.stderr
        assert f"runuser -u {ann.uid} -- longshore" in refused.stderr
        assert "goes on as it was" not in refused.stderr, command
    assert tree(run) == before
    assert not list(root.state.glob("runs/*"))


def test_an_ordinary_user_is_refused_likewise(ann: Account, bob: Account) -> None:
    run = submit(ann)
    refused = bob("resume", run, "--json")
    assert refused.returncode == 6
    assert refused.json["error"]["code"] == "submission_refused"
    assert f"belongs to the user '{ann.uid}', and you are '{bob.uid}'" in refused.json["error"]["message"]


def test_a_prepared_run_of_another_user_is_not_submitted(ann: Account, root: Account) -> None:
    submit(ann)
    done = ann("prepare", ann.home / "run.yaml", "--json")
    run = Path(done.json["submit_dir"])
    assert root("submit", run).returncode == 6
    assert not list((run / "journal").iterdir())


def test_to_resume_all_takes_own_runs_only(ann: Account, root: Account) -> None:
    mark = ann.home / "mark"
    run = submit_and_kill(ann, f"touch {mark}.$(id -u); sleep 600")
    assert root("status", run).returncode == 10
    assert root("adopt", run).returncode == 0
    done = root("resume", "--all")
    assert "nothing to resume" in done.stderr
    assert len(list((run / "journal").glob("*.jsonl"))) == 1
    assert [path.name for path in ann.home.glob("mark.*")] == [f"mark.{ann.uid}"]
    # The owner's own command takes it.
    assert ann("resume", "--all").returncode == 0
    wait_for(lambda: len(list((run / "journal").glob("*.jsonl"))) == 2)


def test_an_own_run_that_was_only_found_is_not_resumed_with_all(ann: Account) -> None:
    run = submit_and_kill(ann, "sleep 600")
    shutil.rmtree(ann.state / "runs")
    assert ann("status", run).returncode == 10
    done = ann("resume", "--all")
    assert "was found there: resume it by its id, or adopt it first" in done.stderr
    assert len(list((run / "journal").glob("*.jsonl"))) == 1
    assert ann("adopt", run).returncode == 0
    assert ann("resume", "--all").returncode == 0
    wait_for(lambda: len(list((run / "journal").glob("*.jsonl"))) == 2)


def test_trust_says_what_would_run_and_lies_with_the_user_who_trusts(ann: Account, root: Account) -> None:
    run = submit(ann, "id -u; exit 3", more="numberOfRetries: 0\n")
    before = tree(run)
    asked = root("adopt", "--trust", run)
    assert (asked.returncode, "requires --yes" in asked.stderr) == (2, True)
    assert f"all commands: {run / 'workflow.jsonl'}" in asked.stderr
    trusted = root("adopt", "--trust", "--yes", run, "--json")
    assert trusted.returncode == 0, trusted.stderr
    shown = trusted.json["runs"][0]
    assert shown["owner"] == str(ann.uid)
    assert shown["trusted"]["service"] == "local"
    assert shown["trusted"]["plug_in"] is None
    assert shown["trusted"]["jobs"] == 1
    assert [(job["name"], "id -u; exit 3" in job["command"]) for job in shown["trusted"]["first_jobs"]] == [
        ("t0", True)
    ]
    assert tree(run) == before
    restarted = root("restart", run)
    assert restarted.returncode == 0, restarted.stderr
    wait_for(lambda: root("status", run).returncode == 19)
    # The job ran as the user who trusts the run.
    assert root("logs", run, "t0").stdout.split()[-1] == "0"


def test_trust_ends_when_the_jobs_change(ann: Account, root: Account) -> None:
    run = submit(ann, "echo harmless; exit 3", more="numberOfRetries: 0\n")
    assert root("adopt", "--trust", "--yes", run).returncode == 0
    text = (run / "workflow.jsonl").read_text("utf-8")
    ann.run("/bin/sh", "-c", f"cat >'{run}/workflow.jsonl' <<'END'\n{text.replace('harmless', 'harmful!')}END")
    assert root("restart", run).returncode == 6
    # Another user's record is no trust of root's.
    (record,) = root.state.glob("trusted/*.json")
    os.chown(record, ann.uid, ann.gid)
    ann.run("/bin/sh", "-c", f"cat >'{run}/workflow.jsonl' <<'END'\n{text}END")
    assert root("restart", run).returncode == 6
    os.chown(record, 0, 0)
    assert root("restart", run).returncode == 0
    wait_for(lambda: root("status", run).returncode == 19)


def restart_and_wait(user: Account, run: Path) -> None:
    """Restart a failed run as a user, and wait until it failed again."""
    lives = len(list((run / "journal").glob("0*.jsonl")))
    done = user("restart", run)
    assert done.returncode == 0, done.stderr
    wait_for(lambda: len(list((run / "journal").glob("0*.jsonl"))) > lives)
    wait_for(lambda: user("status", run).returncode == 19)


def test_trust_ends_when_the_owner_submits_again(ann: Account, root: Account) -> None:
    run = submit(ann, "id -u; exit 3", more="numberOfRetries: 0\n")
    assert root("adopt", "--trust", "--yes", run).returncode == 0
    # Submissions of the user who trusts the run are covered.
    for _ in range(2):
        restart_and_wait(root, run)
    # A submission of the owner relies on a file that nobody showed to root.
    for path in run.rglob("*"):
        os.chown(path, ann.uid, ann.gid)
    restart_and_wait(ann, run)
    for command in ACTS:
        refused = root(*words(command, run))
        assert refused.returncode == 6, (command, refused.stderr)
        assert "you trusted it, and it changed since" in refused.stderr, command
        assert f"longshore adopt --trust {run}" in refused.stderr
    shown = root("adopt", "--trust", "--yes", run)
    assert "id -u; exit 3" in shown.stderr
    restart_and_wait(root, run)
    assert root("logs", run, "t0").stdout.split()[-1] == "0"


def test_trust_ends_when_a_manifest_is_removed_or_changed(ann: Account, root: Account) -> None:
    run = submit(ann, "exit 3", more="numberOfRetries: 0\n")
    assert root("adopt", "--trust", "--yes", run).returncode == 0
    manifest = run / "submissions" / "0001.json"
    text = manifest.read_bytes()
    for change in (manifest.unlink, lambda: manifest.write_bytes(text.replace(b'"v":', b'"v": '))):
        change()
        refused = root("restart", run)
        # The damage may be met before the lack of trust.
        assert refused.returncode in {5, 6}, refused.stderr
        assert root("drive", run).returncode in {5, 6}
        assert len(list((run / "journal").glob("0*.jsonl"))) == 1
        manifest.write_bytes(text)
    restart_and_wait(root, run)


def test_an_engine_does_not_begin_for_another_user(ann: Account, root: Account) -> None:
    run = submit_and_kill(ann, "sleep 600")
    assert root("drive", run).returncode == 6
    assert root("cancel", run).returncode == 6
    assert not list(run.glob("steer/*"))
    assert len(list((run / "journal").glob("*.jsonl"))) == 1
    kill_processes_of(ann)
