"""What a planted run directory or configuration says is data: it chooses no code, no permissions and no other file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.two_users.accounts import Account
from tests.two_users.runs import LOOKS, submit, tree, wait_for, words, write_configuration

from longshore.contract.service import RunPaths
from longshore.rundir.submissions import accept_changes, read_manifest

_WRITE_OF_OTHERS = 0o002
_SERVICE = "from longshore.services.local.service import LocalService\n\nclass Service(LocalService): pass\n"


def change(path: Path, **values: object) -> None:
    """Change members of a JSON file in place, as its owner can."""
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


def given(run: Path, user: Account) -> Path:
    """Return a copy of a run that a user unpacked: it belongs to this user."""
    copy = user.home / "given"
    shutil.copytree(run, copy, symlinks=True)
    root = replace(user, uid=0, gid=0)
    assert root.run("/bin/chown", "-R", f"{user.uid}:{user.gid}", copy).returncode == 0
    return copy


def write_module(user: Account, name: str, text: str) -> dict[str, str]:
    """Write a module, and return the environment that finds it."""
    modules = user.home / "modules"
    modules.mkdir(exist_ok=True)
    (modules / f"{name}.py").write_text(text, "utf-8")
    return {"PYTHONPATH": str(modules)}


def test_a_service_by_class_path_is_not_imported_for_a_run(ann: Account, bob: Account) -> None:
    run = given(submit(ann, "exit 3", more="numberOfRetries: 0\n"), bob)
    mark = bob.home / "imported"
    env = write_module(bob, "planted", f"import pathlib; pathlib.Path({str(mark)!r}).write_text('x')\n{_SERVICE}")
    change(run / "run.json", service="planted.Service")
    # Whoever plants it makes the record of the submission fit.
    manifest = read_manifest(RunPaths(run))
    assert manifest is not None
    accept_changes(RunPaths(run), manifest)
    for command in (*LOOKS, ("resume",), ("restart",), ("cancel",), ("submit",), ("drive",)):
        bob(*words(command, run), env=env)
        assert not mark.exists(), command
    refused = bob("cancel", run, env=env)
    assert refused.returncode == 4
    assert "names 'planted.Service' as its service, which is not installed" in refused.stderr
    # The user's own environment may name it.
    bob("cancel", run, env={**env, "BPS_WMS_SERVICE_CLASS": "planted.Service"})
    assert mark.exists()


def test_a_service_of_the_users_own_configuration_is_imported_later(ann: Account) -> None:
    env = write_module(ann, "mine", _SERVICE)
    configuration = write_configuration(ann, "exit 3", more="numberOfRetries: 0\nwmsServiceClass: mine.Service\n")
    done = ann("submit", configuration, "--wait", "--json", env=env)
    assert done.returncode == 19, done.stderr
    restarted = ann("restart", done.json["submit_dir"], env=env)
    assert restarted.returncode == 0, restarted.stderr


@pytest.mark.parametrize("umask", [0, 0o777, -1])
def test_no_umask_of_a_run_lets_others_write(ann: Account, umask: int) -> None:
    configuration = write_configuration(ann, "touch $LONGSHORE_JOB_RUN_DIR/made; exit 3", more="numberOfRetries: 0\n")
    run = Path(ann("prepare", configuration, "--json").json["submit_dir"])
    for name in ("wms/engine.json", "made-from.json"):
        change(run / name, umask=umask)
    done = ann("submit", run, "--force")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: ann("status", run).returncode == 19)
    paths = [path for path in (run, *run.rglob("*")) if not path.is_symlink()]
    assert [path for path in paths if path.stat().st_mode & _WRITE_OF_OTHERS] == []
    assert run / "made" in paths


def test_a_run_whose_id_is_a_path_writes_nowhere(ann: Account, bob: Account) -> None:
    run = given(submit(ann), bob)
    (bob.home / "settings.json").write_text("{}", "utf-8")
    for name in ("../../../../settings", "", "x" * 1000):
        change(run / "run.json", id=name)
        before = tree(bob.home)
        for command in (("report", "--id"), ("adopt",), ("restart",)):
            assert bob(*words(command, run)).returncode == 5, (name, command)
        assert tree(bob.home) == before


def test_to_look_at_a_configuration_calls_none_of_its_functions(ann: Account, bob: Account) -> None:
    mark = bob.home / "called"
    env = write_module(
        bob,
        "planted",
        f"import pathlib\n\ndef call(*_):\n    pathlib.Path({str(mark)!r}).write_text('x')\n    return {{}}\n",
    )
    bob.home.chmod(0o777)
    path = write_configuration(ann, "true")
    for text in (
        "bpsGenerateConfig: planted.call()",
        "clusterAlgorithm: planted.call",
        "graphSource: planted.call",
        "submitPath: bpsEval(planted.call, 1)",
    ):
        payload = "" if text.startswith("graphSource") else "wfformat: graph.json\n"
        path.write_text(f"{payload}runQuantumCommand: 'true'\n{text}\n", "utf-8")
        for command in (("draw",), ("config", "show"), ("config", "lint")):
            done = bob(*command, path, env=env)
            assert not mark.exists(), (text, command, done.stderr)
        drawn = bob("draw", path, env=env)
        assert (drawn.returncode, "only looks at a configuration" in drawn.stderr) == (3, True), (text, drawn.stderr)
