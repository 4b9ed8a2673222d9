"""Conformance of capabilities for sites, runs of other tools and notices; see `longshore.contract.capabilities`."""

# ruff: noqa: D102 - the name of a test says what it checks

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import msgspec

from longshore.contract.capabilities import LOAD_NAMES, JobProbe, LoadReporter, NoticeHost, RunMirroring, SiteAccess
from longshore.contract.context import Context
from longshore.contract.service import WmsService
from longshore.engine.rundir.notice_log import encode_notice_rules
from longshore.model.notice import NoticeEvent, NoticeRule
from longshore.model.workflow.job import Job, JobSettings
from longshore.testing.conformance.service_test_case import ServiceTestCase, list_files, make_workflow
from longshore.world.files.atomic import create_file


class LoadReporterConformance(ServiceTestCase):
    """Services that know how busy their workload manager is."""

    capability: ClassVar[type] = LoadReporter

    def test_what_is_free_is_part_of_the_whole(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, LoadReporter)
        ctx = self.context(service, scratch / "run")
        before = list_files(scratch)
        load = service.query_load(ctx)
        assert list_files(scratch) == before
        assert load.get("cpus_total"), f"no processors are reported: {load}"
        assert load.keys() <= LOAD_NAMES
        assert all(math.isfinite(value) and value >= 0 for value in load.values()), load
        for kind in ("cpus", "nodes"):
            assert load.get(f"{kind}_free", 0) <= load.get(f"{kind}_total", math.inf), load


class JobProbeConformance(ServiceTestCase):
    """Services that check jobs by what their workload manager answers now."""

    capability: ClassVar[type] = JobProbe
    unmet_settings: ClassVar[JobSettings] = JobSettings(label="absent", attributes={"queue": "no_such_queue"})
    """Settings of a job that names what the workload manager does not have."""

    def knows_names(self, ctx: Context) -> bool:
        """Whether the service knows which names there are; nothing is found otherwise."""
        return True

    def test_a_job_that_names_nothing_has_no_problem(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, JobProbe)
        job = Job(name="plain_1", label="plain", command=("true",), settings=JobSettings(label="plain"))
        assert not service.probe_jobs([job], self.context(service, scratch / "run"))

    def test_a_job_that_names_what_is_not_there_is_found(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, JobProbe)
        ctx = self.context(service, scratch / "run")
        before = list_files(scratch)
        job = Job(name="absent_1", label="absent", command=("true",), settings=self.unmet_settings)
        problems = service.probe_jobs([job], ctx)
        assert list_files(scratch) == before
        assert bool(problems) is self.knows_names(ctx), f"{self.unmet_settings} has the problems {problems}"
        assert {problem.job for problem in problems} <= {"absent_1"}
        assert all(problem.message and problem.hint for problem in problems), problems


class SiteAccessConformance(ServiceTestCase):
    """Services that know how their programs find the cluster."""

    capability: ClassVar[type] = SiteAccess

    def test_a_new_profile_gets_plain_values(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, SiteAccess)
        report = self.context(service, scratch / "run").probe
        assert report is not None
        for inventory in (None, report.inventory):
            found = service.site_access(inventory)
            assert found == service.site_access(inventory), "a second call has another result"
            assert msgspec.json.decode(msgspec.json.encode(found)) == found
            assert "" not in found.values()


class RunMirroringConformance(ServiceTestCase):
    """Services that read run directories of other tools."""

    capability: ClassVar[type] = RunMirroring

    def test_a_directory_of_no_known_tool_is_left_alone(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, RunMirroring)
        before = list_files(scratch)
        for folder in (scratch, scratch / "absent"):
            assert service.mirror_run(folder) is None
        assert list_files(scratch) == before


class NoticeHostConformance(ServiceTestCase):
    """Services that start the notifier of their runs."""

    capability: ClassVar[type] = NoticeHost

    def test_the_notifier_is_started_with_the_run(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, NoticeHost)
        rule = NoticeRule(name="file", events=(NoticeEvent.END,), command="true")
        notices = msgspec.to_builtins([rule])
        run = self.prepare(service, make_workflow({"job_1": "true"}), scratch / "run", notify=notices)
        create_file(run.notice_rules, [encode_notice_rules([rule])], below=run.root)
        self.submit(service, run)
        # Of some runs it does not, such as those that its workload manager drives alone.
        is_host = service.hosts_notices(run)
        self.wait_for_end(service, run)
        if is_host:
            self.wait_until(run.notifier_log.exists, "the start of the notifier")
        else:
            assert not run.notifier_log.exists(), "the service started the notifier of a run that it does not host"
