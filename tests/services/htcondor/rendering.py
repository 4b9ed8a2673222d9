"""A workflow with every feature, and its rendered files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshore.contract.service import Context, RunPaths, Site
from longshore.model.tasks import Dag, File
from longshore.model.workflow import MIB, Job, JobSettings, Request, Workflow
from longshore.services.htcondor.render.dag import render

ROOT = Path("/data/runs/one")


def context(site: Mapping[str, Any] | None = None, **settings: Any) -> Context:
    """The context of a run at a site."""
    place = Site(name="pool", settings=site or {})
    return Context(settings=settings, site=place, paths=RunPaths(ROOT), templates={}, run_token="k7f3a-0011aabb")


def job(name: str, command: Any = "true", *, label: str = "", **more: Any) -> Job:
    """A job with settings of its own."""
    of_job = {key: more.pop(key) for key in ("environment", "tasks", "tags") if key in more}
    shared = of_job.pop("environment", {})
    label = label or name
    return Job(
        name=name, label=label, command=command, settings=JobSettings(label=label, **more), environment=shared, **of_job
    )


def some_of_everything() -> Workflow:
    """Three labels and a final job."""
    isr = JobSettings(
        label="isr",
        request=Request(cpus=2, memory_b=3072 * MIB, disk_b=100 * MIB, walltime_s=3600.0, resources={"gpus": 1}),
        number_of_retries=3,
        retry_unless_exit=(1, 2),
        environment={"DATA": "/data", "WHO": "<ENV:USER>"},
        limit_threads=True,
        attributes={
            "memoryMultiplier": 2.0,
            "requestMemoryMax": 20480 * MIB,
            "accountingGroup": "survey",
            "accountingUser": "jdoe",
            "mailTo": "jdoe@example.org",
            "concurrencyLimit": "db_limit",
            "category": "heavy work",
            "preemptible": False,
            "priority": 10,
        },
        service_settings={
            "profile.condor": {"+Project": '"survey"', "requirements": 'Machine != "n17"'},
            "nodeset": "set_1",
        },
    )
    more = JobSettings(
        **{name: getattr(isr, name) for name in isr.__struct_fields__}
        | {"request": Request(cpus=4, memory_b=4096 * MIB, disk_b=100 * MIB, walltime_s=7200.0, resources={"gpus": 1})}
    )
    jobs = [
        Job(
            name=f"isr_{visit}",
            label="isr",
            command=f"$PIPE run -b <FILE:repo> -i {visit} --verbose",
            settings=more if visit == 102 else isr,
        )
        for visit in (101, 102, 103)
    ]
    jobs += [
        job(
            f"calib_{visit}",
            ("/opt/calib", "--visit", str(visit), "a b"),
            label="calib",
            service_settings={"attrs": {"Night": 3}},
        )
        for visit in (101, 102, 103)
    ]
    jobs.append(
        job("sum it's $(all)", ("sum", "$(all)"), label="sum", attributes={"abortOnValue": 9, "abortReturnValue": 4})
    )
    edges = [(f"isr_{visit}", f"calib_{visit}") for visit in (101, 102, 103)]
    edges += [(f"calib_{visit}", "sum it's $(all)") for visit in (101, 102, 103)]
    return Workflow(
        "u_jdoe_run",
        Dag.by_name(jobs, edges),
        final=job("finalJob", ("final_job.bash",), number_of_retries=1),
        files={"repo": File(name="repo", path="/data/repo")},
        attributes={"bps_isjob": "True", "bps_operator": "jdoe", "bps_project": ""},
    )


def rendered(workflow: Workflow, ctx: Context) -> dict[str, str]:
    """Text per path."""
    return {str(file.path): "".join(file.chunks()) for file in render(workflow, ctx)}
