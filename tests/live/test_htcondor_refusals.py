"""Errors that keep a run from HTCondor: each has its own message, before the submission or in the report."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until

pytestmark = pytest.mark.live

TEXT = "runQuantumCommand: 'true'\n"
PING = ("ping", "--wms-service-class", "htcondor")


def other(site: CondorSite, **settings: str) -> dict[str, str]:
    """The environment of somebody for whom the pool's configuration says something else."""
    text = site.pool.config.read_text("utf-8")
    for name, value in settings.items():
        text, count = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
        assert count == 1, name
    path = site.folder / "condor_config"
    path.write_text(text, "utf-8")
    return {"CONDOR_CONFIG": str(path)}


@contextmanager
def hanging(number: int) -> Iterator[None]:
    """Have a daemon answer nothing."""
    os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(number, signal.SIGCONT)


@pytest.mark.parametrize(
    ("settings", "status", "words"),
    [
        ({"DAGMAN_USE_STRICT": "1"}, 6, "DAGMan refuses to run a DAG from"),
        (
            {"SEC_DEFAULT_AUTHENTICATION_METHODS": "IDTOKENS", "SEC_CLIENT_AUTHENTICATION_METHODS": "IDTOKENS"},
            4,
            "whether it accepts your identity",
        ),
        ({"RELEASE_DIR": "/nowhere"}, 6, "there is no program '/nowhere/bin/condor_dagman', which runs DAGs"),
        ({"LOCAL_DIR": "/nowhere", "COLLECTOR_HOST": "127.0.0.1:9"}, 4, "does not answer"),
    ],
)
def test_a_submission(condor_site: CondorSite, settings: dict[str, str], status: int, words: str) -> None:
    if "DAGMAN_USE_STRICT" in settings and not str(condor_site.folder).startswith("/tmp/"):
        pytest.skip("strict is only the folder for what is temporary")
    path = condor_site.write(f"submitPath: {condor_site.folder / 'here'}\n{TEXT}")
    ran = condor_site.cli("submit", path, env=other(condor_site, **settings))
    assert ran.returncode == status, ran.stderr
    assert words in ran.stderr
    assert not (condor_site.folder / "here").exists()
    assert not condor_site.pool.queue("ClusterId")


def test_an_unknown_schedd(condor_site: CondorSite) -> None:
    path = condor_site.write(TEXT)
    path.write_text(path.read_text("utf-8").replace("{here: {}}", "{here: {htcondor: {schedd: nobody@}}}"), "utf-8")
    ran = condor_site.cli("ping", "--config", path)
    assert ran.returncode == 4
    assert "the schedd 'nobody@' is not known to the collector. 'condor_status -schedd' lists" in ran.stdout


@pytest.mark.full
@pytest.mark.parametrize("daemon", ["schedd", "collector"])
def test_a_ping_of_a_hanging_schedd_ends(condor_site: CondorSite, daemon: str) -> None:
    with hanging(condor_site.pool.pid(daemon)):
        ran = condor_site.cli(*PING)
    assert ran.returncode == 4, ran.stdout
    assert f"the {daemon}" in ran.stdout
    assert "does not answer" in ran.stdout


def test_a_ping_reports_daemons_and_identity(condor_site: CondorSite) -> None:
    ran = condor_site.cli(*PING, "--json")
    assert ran.returncode == 0, ran.stdout
    details = ran.json["details"]
    assert details["authenticated"].endswith(" by FS")
    assert re.fullmatch(r"\S+ \(\d+\.\d+\.\d+\)", details["schedd"])
    assert re.search(r" \(\d+\.\d+\.\d+\)$", details["collector"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", details["bindings"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have a folder that the pool's user may not enter")
def test_a_directory_that_dagman_may_not_enter(condor_site: CondorSite) -> None:
    closed = condor_site.folder / "closed"
    path = condor_site.write(f"submitPath: {closed / 'run'}\n{TEXT}")
    assert condor_site.cli("prepare", path).returncode == 0
    os.chown(closed, 2, 2)
    closed.chmod(0o700)
    run: Path = closed / "run"
    assert condor_site.cli("submit", run).returncode == 0
    until(lambda: "It could not start in" in condor_site.cli("report", "--id", run).stdout, "the report says it")
    assert condor_site.cli("cancel", run).returncode == 0
    assert not condor_site.pool.queue("ClusterId")
