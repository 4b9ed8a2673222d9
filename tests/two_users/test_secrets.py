"""Files of a run that hold secrets are their owner's alone; those that hold references hold no secret."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

from tests.two_users.accounts import Account
from tests.two_users.runs import LOOKS, words, write_configuration

MORE = """
dbPassword: "hunter2'zz\\"9"
environment: {API_TOKEN: tok123zz, SITE_TOKEN: $<MY_TOKEN>, PART_TOKEN: 'pre77zz{label}'}
numberOfRetries: 0
"""
SECRETS = (b"hunter2", b"tok123zz", b"set77zz", b"pre77zz", b"env99zz")


def submit(user: Account, *options: str, more: str = MORE, command: str = "true") -> Path:
    path = write_configuration(user, command, more=more)
    # A umask of the user or of the site that would open all files.
    done = user.run(
        *("/bin/sh", "-c", 'umask 0; exec "$@"', "sh", user.python, "-m", "longshore"),
        *("submit", str(path), "--json", "--wait", *options),
        env={"MY_TOKEN": "env99zz"},
    )
    assert done.returncode in {0, 19}, done.stderr
    return Path(done.json["submit_dir"])


def readable_by_others(run: Path) -> dict[Path, bytes]:
    files = [path for path in run.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077}


def holders(run: Path, secret: bytes) -> set[str]:
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and secret in path.read_bytes()}


def test_files_with_secrets_are_closed_to_others(ann: Account, bob: Account) -> None:
    run = submit(ann, "--set", r'apiKey="set\u0037\u0037zz"', "--set", "extra=x", command="true {dbPassword} {apiKey}")
    for secret in SECRETS[:4]:
        found = holders(run, secret)
        assert found >= {"workflow.jsonl", "wms/jobs.tsv"}, secret
        for name in found:
            path = run / name
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, name
            assert bob.run("/bin/cat", path).returncode == 1, name
    assert "inputs/run.yaml" in holders(run, b"hunter2")
    assert stat.S_IMODE((run / "made-from.json").stat().st_mode) == 0o600, "an escape of YAML hides nothing"
    for path, content in readable_by_others(run).items():
        assert not any(secret in content for secret in SECRETS), path
    # Nothing else is closed.
    assert {"run.json", "origins.json", "inputs/graph.json"} <= {
        str(path.relative_to(run)) for path in readable_by_others(run)
    }
    assert ann("report", "--id", run).returncode == 0


def test_a_reference_is_kept_and_closes_nothing(ann: Account, bob: Account) -> None:
    more = (
        "environment: {SITE_TOKEN: $<MY_TOKEN>, SHELL_TOKEN: '${MY_TOKEN}'}\ninheritEnvironment: [MY_TOKEN]\n"
        "numberOfRetries: 0\n"
    )
    run = submit(
        ann, "--set", "password=$<MY_TOKEN>", more=more, command="test $SITE_TOKEN$SHELL_TOKEN = {password}{password}"
    )
    assert ann("status", run).returncode == 0, "the job has the value"
    assert not holders(run, b"env99zz")
    assert "workflow.jsonl" in holders(run, b"<ENV:MY_TOKEN>")
    for name in ("workflow.jsonl", "made-from.json", "wms/jobs.tsv", "inputs/run.yaml"):
        assert bob.run("/bin/cat", run / name).returncode == 0, name


def test_a_reference_that_is_filled_in_closes_the_file(ann: Account) -> None:
    run = submit(ann, more="campaign: 'x-$<MY_TOKEN>'\nnumberOfRetries: 0\n")
    assert holders(run, b"env99zz"), "the attributes of a run are filled in when it is submitted"
    for path, content in readable_by_others(run).items():
        assert b"env99zz" not in content, path


def test_others_who_look_at_a_closed_file_are_told(ann: Account, bob: Account) -> None:
    run = submit(ann)
    for command in LOOKS:
        seen = bob(*words(command, run))
        assert "Traceback" not in seen.stderr, command
        assert not any(secret.decode() in seen.stdout + seen.stderr for secret in SECRETS), command
    refused = bob("show-job", run, "t0")
    assert refused.returncode not in {0, 1}
    assert "Permission denied" in refused.stderr
    assert "its owner's alone" in refused.stderr
    checked = bob("verify", run)
    assert checked.returncode == 5
    assert "damaged" not in checked.stdout
    assert f"not readable '{run / 'workflow.jsonl'}'" in checked.stdout
    assert f"Their owner can check them: longshore verify {run}" in checked.stdout


def test_the_owner_of_a_shared_run_is_told_what_the_group_cannot_read(ann: Account, member: Account) -> None:
    owner = replace(ann, groups=(member.gid,))
    (ann.home / "local.yaml").write_text(f"service: local\ngroup: '{member.gid}'\numask: '0002'\n", "utf-8")
    path = write_configuration(owner, "true", more=f"sitePath: {ann.home}\n{MORE}")
    done = owner("submit", path, "--json", "--wait")
    run = Path(done.json["submit_dir"])
    assert f"not the group '{member.gid}', because of secrets in the configuration" in done.stderr
    assert run.stat().st_mode & 0o2070 == 0o2070
    assert member.run("/bin/cat", run / "run.json").returncode == 0
    for name in holders(run, b"tok123zz"):
        assert member.run("/bin/cat", run / name).returncode == 1, name


def test_a_changed_secret_is_not_shown(ann: Account) -> None:
    path = write_configuration(ann, "true", more=MORE)
    run = Path(ann("prepare", path, "--json").json["submit_dir"])
    path.write_text(path.read_text("utf-8").replace("tok123zz", "tok456zz"), "utf-8")
    os.chown(path, ann.uid, ann.gid)
    refused = ann("submit", run)
    assert "'environment.API_TOKEN' is (hidden) now, and was (hidden)" in refused.stderr
    assert "tok" not in refused.stdout + refused.stderr
