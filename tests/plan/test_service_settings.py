"""Settings for a service and its executor: the same merge for services of this package and of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar

import pytest

from longshore.contract.executor import Executor
from longshore.contract.service import Context, Intervention, PingReport, Problem, RestartChanges, ServiceTraits
from longshore.engine.run.engine_service import EngineService
from longshore.errors import RequestError
from longshore.model.workflow import MIB, Workflow
from longshore.plan.profiles import ProfileCompiler
from longshore.plan.resolved_run import ResolvedRun, resolve_run
from longshore.progress import QuietProgress
from longshore.services.batch.service import BatchService
from longshore.testing.fakes import FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run


class Grid(EngineService):
    """A workload manager of a plug-in, without a schema of its keys."""

    name: ClassVar[str] = "grid"
    traits: ClassVar[ServiceTraits] = ServiceTraits(settings_key="gridmap")
    received: ClassVar[list[Mapping[str, Any]]] = []

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        self.received.append(settings)
        return FakeExecutor(FakeManager(FakeClock()))

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        return []

    def ping(self, ctx: Context) -> PingReport:
        return PingReport(service=self.name, ok=True, message="it answers")


class Bare(BatchService):
    """A service of the kit that states no traits."""

    name: ClassVar[str] = "bare"

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        return []

    def ping(self, ctx: Context) -> PingReport:
        return PingReport(service=self.name, ok=True, message="it answers")


TEXT = """
    payloadName: x
    computeSite: here
    {key}: {{queue: long, slots: 4}}
    accountingGroup: survey
    directives: ["-l x"]
    site:
      here:
        {key}: {{slots: 8, cell: main}}
        qos: fast
        partitions: [{{name: a, cpus: 4}}]
        setup: {{submit: [". /opt/grid/settings.sh"]}}
        limits: {{queued: 5, memory: 2 GiB, walltime: 1h}}
    requestResources: {{licence: 1}}
    pipetask:
      A: {{{key}: {{queue: short}}, requestResources: {{gpus: 2}}}}
"""


def begun(service: type[EngineService], key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ResolvedRun:
    monkeypatch.chdir(tmp_path)
    text = dedent(TEXT).format(key=key)
    Path("run.yaml").write_text(f"wmsServiceClass: {service.__module__}.{service.__qualname__}\n{text}", "utf-8")
    return resolve_run(Path("run.yaml"), now=0.0, progress=QuietProgress())


@pytest.mark.parametrize(("service", "key"), [(Grid, "gridmap"), (Bare, "bare")])
def test_an_executor_gets_all_that_the_site_says(
    service: type[EngineService], key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = begun(service, key, monkeypatch, tmp_path)
    executor = run.context.settings["executor"]
    assert executor[key] == {"queue": "long", "slots": 8, "cell": "main"}
    assert executor["account"] == "survey"
    assert executor["qos"] == "fast"
    assert executor["partitions"] == [{"name": "a", "cpus": 4}]
    assert executor["directives"] == ["-l x"]
    assert executor["setup"] == [". /opt/grid/settings.sh"]
    assert executor["limits"] == {"max_waiting": 5}
    assert executor["ceilings"] == {"memory": 2048 * MIB, "walltime": 3600.0}
    assert run.context.site.settings[key] == executor[key]


@pytest.mark.parametrize(("service", "key"), [(Grid, "gridmap"), (Bare, "bare")])
def test_a_job_has_the_map_and_the_resources_of_its_label(
    service: type[EngineService], key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profiles = ProfileCompiler(begun(service, key, monkeypatch, tmp_path))
    special, other = profiles.job_profile("A").settings, profiles.job_profile("B").settings
    assert special.service_settings["queue"] == "short"
    assert special.request.resources["gpus"] == 2
    assert other.request.resources == {"licence": 1}
    assert other.service_settings.get("queue") in (None, "long")


def test_the_executor_of_a_plug_in_is_constructed_with_these_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Grid.received.clear()
    run = begun(Grid, "gridmap", monkeypatch, tmp_path)
    assert isinstance(run.service, Grid)
    run.service.executor(run.context.settings["executor"])
    assert Grid.received[-1]["gridmap"]["cell"] == "main"


def test_a_change_of_a_request_stays_below_the_ceilings(tmp_path: Path) -> None:
    engine = {"executor": {"ceilings": {"memory": 2048 * MIB, "walltime": 3600.0}}}
    run = write_run(tmp_path / "run", {"a": ()}, engine=engine)
    too_much = {"requestMemory": "3G", "requestCpus": "64"}
    words = r"asks for 3072 MiB of 'requestMemory', and 'limits\.memory' of the site is 2048"
    with pytest.raises(RequestError, match=words):
        Grid().steer(run, Intervention(act="set", set=too_much))
    with pytest.raises(RequestError, match=words):
        Grid().restart(run, RestartChanges(set=too_much))
