"""Limits and partitions of a site hold, whichever keys ask for more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

from longshore.config.plugins import template_texts
from longshore.contract.service import Intervention, JobSelection, RunPaths
from longshore.errors import LongshoreError, RequestError
from longshore.model.workflow import MIB
from longshore.plan.run_plan import RunPlan
from longshore.plan.site_choice import resolve_at_chosen_site
from longshore.plan.stages import Stage, advance_run, run_stages
from longshore.progress import QuietProgress, RecordingProgress
from longshore.services.lsf.service import LsfService
from longshore.services.sge.service import SgeService
from longshore.services.slurm.service import SlurmService

SITE = """
    wmsServiceClass: {service}
    computeSite: here
    wfformat: graph.json
    runQuantumCommand: "true"
    site:
      here:
        limits: {{cpus: 4, memory: 8 GiB, walltime: "4:00:00"}}
        partitions:
          - {{name: debug, nodes: 1, walltime: 600}}
          - {{name: main, nodes: 2, walltime: "2:00:00"}}
        sge: {{bin: /opt/sge, root: /opt/sge, mem_resource: h_vmem, parallelEnvironment: smp}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"name": "A", "id": "a"}]}}}
    Path("graph.json").write_text(json.dumps(graph), "utf-8")


def prepare(more: str, service: str = "slurm") -> None:
    Path("run.yaml").write_text(f"{dedent(SITE).format(service=service)}{more}\n", "utf-8")
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("requestCpus: 16", "asks for 16 by 'requestCpus'; 'limits.cpus' of the site 'here' is 4"),
        (
            "slurm: {cpu: 16, mem: 100G}",
            "run.yaml:13:14: job 'a' asks for 16 by 'slurm.cpu'; 'limits.cpus' of",
        ),
        ("slurm: {mem: 100G}", "asks for 102400 MiB by 'slurm.mem'; 'limits.memory' of the site 'here' is 8 GiB"),
        ("slurm: {mem: 0}", "asks for all memory of a node by 'slurm.mem'; 'limits.memory'"),
        ("slurm: {tasks: 8}", "asks for 8 by 'slurm.tasks'; 'limits.cpus'"),
        ("slurm: {nodeCount: 2, mem: 5G}", "asks for 10240 MiB by 'slurm.mem'; 'limits.memory'"),
        ("pipetask: {A: {slurm: {cpu: 3, cpu1: 3}}}", "asks for 6 by 'slurm.cpu1'; 'limits.cpus'"),
        ('directives: ["-c 16"]', "run.yaml:13:14: job 'a' asks for 16 by '-c 16' in 'directives'; 'limits.cpus'"),
        (
            'slurm: {partition: other, sbatch: ["--time=5:00:00"]}',
            "asks for 18000 s by '--time=5:00:00' in 'slurm.",
        ),
        ("backendOptions: --mem=100G -c2", "'limits.memory' of the site 'here' is 8 GiB"),
        ('directives: ["--exclusive"]', "asks for all processors of its nodes by '--exclusive' in 'directives'"),
        ("slurm: {exclusive: true}", "asks for all processors of its nodes by 'slurm.exclusive'"),
        ("slurm: {sbatch: [--core-spec=1]}", "asks for all processors of its nodes by '--core-spec=1' in"),
        ('directives: ["--mincpus=6"]', "asks for 6 by '--mincpus=6' in 'directives'"),
        ('directives: ["-B 2:2:2"]', "asks for 8 by '-B 2:2:2' in 'directives'"),
        ('directives: ["--extra-node-info 5"]', "asks for 5 by '--extra-node-info 5' in 'directives'"),
        ('directives: ["-n 5"]', "asks for 5 by '-n 5' in 'directives'"),
        ('directives: ["-N 2-5"]', "asks for 5 by '-N 2-5' in 'directives'"),
        ('directives: ["-w n[1-5]"]', "asks for 5 by '-w n[1-5]' in 'directives'"),
        ('directives: ["hetjob", "-c 5"]', "asks for 6 by '-c 5' in 'directives'"),
        ("slurm: {nodeCount: 2, tasksPerNode: 3}", "asks for 6 by 'slurm.tasksPerNode'"),
        ('directives: ["--threads-per-core=1", "-c 3"]', "asks for 6 by '-c 3' in 'directives'"),
        ('directives: ["--hint=nomultithread", "-c 3"]', "asks for 6 by '-c 3' in 'directives'"),
        ('directives: ["--mem-per-cpu=3G", "-c 3"]', "asks for 9216 MiB by '-c 3' in 'directives'"),
        ("slurm: {memPerCpu: 9G}", "asks for 9216 MiB by 'slurm.memPerCpu'"),
        ('directives: ["--mem-per-gpu=5G", "--gres=gpu:2"]', "asks for 10240 MiB by '--gres=gpu:2' in 'directives'"),
        ('directives: ["--cpus-per-gpu=3 --gpus=2"]', "asks for 6 by '--cpus-per-gpu=3 --gpus=2' in 'directives'"),
        ('directives: ["--mem-per-c=9G"]', "asks for 9216 MiB by '--mem-per-c=9G' in 'directives'"),
        ('directives: ["-t UNLIMITED"]', "asks for no time limit by '-t UNLIMITED' in 'directives'"),
        ("requestWalltime: 3h", "the nearest, 'main', lacks walltime (3:00:00 asked, 2:00:00 there)"),
        ("slurm: {nodeCount: 3}", "the nearest, 'main', lacks nodes (3 asked, 2 there)"),
        (
            "slurm: {nodeCount: 2, partition: debug}",
            "does not hold it: the nearest, 'debug', lacks nodes",
        ),
    ],
)
def test_what_a_site_does_not_allow_is_refused(more: str, words: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        prepare(more)
    assert re.search(re.escape(words), str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    "more", ["slurm: {nodeCount: 2, cpu: 2, mem: 4G}", "requestWalltime: 2h", "slurm: {partition: other, nodeCount: 3}"]
)
def test_what_a_site_allows_is_prepared(more: str) -> None:
    prepare(more)


@pytest.mark.parametrize(
    ("service", "more", "words"),
    [
        (
            "htcondor",
            "profile: {condor: {request_cpus: 16}}",
            "13:34: job 'a' asks for 16 by 'profile.condor.re",
        ),
        (
            "htcondor",
            "profile: {condor: {request_memory: 9000}}",
            "asks for 9000 MiB by 'profile.condor.req",
        ),
        (
            "htcondor",
            'directives: ["request_memory = 9 GB"]',
            "asks for 9216 MiB by 'request_memory = 9 GB' in",
        ),
        (
            "htcondor",
            "requestMemory: 9000\nprofile: {condor: {request_memory: MY.RequestMemory}}",
            "asks for 9000 MiB by 'requestMemory'; 'limits.memory'",
        ),
        ("htcondor", "profile: {condor: {request_cpus: 2 * 4}}", "asks for 8 by 'profile.condor.request_cpus'"),
        ("htcondor", "profile: {condor: {request_cpus: TotalSlotCpus}}", "all processors of its nodes by 'profile.con"),
        ("htcondor", "profile: {condor: {request_memory: TARGET.Memory}}", "all memory of a node by 'profile.condor."),
        ("htcondor", 'directives: ["+RequestCpus = 16"]', "asks for 16 by '+RequestCpus = 16' in 'directives'"),
        ("htcondor", "attrs: {RequestMemory: 9000}", "asks for 9000 MiB by 'attrs.RequestMemory'"),
        ("htcondor", "attrs: {RequiresWholeMachine: true}", "all processors of its nodes by 'attrs.RequiresWholeMa"),
        ("htcondor", "profile: {condor: {universe: parallel, machine_count: 5}}", "asks for 5 by 'profile.condor"),
        ("lsf", "requestCpus: 16", "asks for 16 by 'requestCpus'; 'limits.cpus' of the site 'here' is 4"),
        ("lsf", 'bsub: ["-n 16"]', "run.yaml:13:8: job 'a' asks for 16 by '-n 16' in 'directives'; 'limits.cpus'"),
        (
            "lsf",
            'lsf: {bsub: ["-M 100GB"]}',
            "asks for 102400 MiB by '-M 100GB' in 'lsf.bsub'; 'limits.memory' of the site 'here' is 8 GiB",
        ),
        (
            "lsf",
            'directives: ["-W 5:00", "-q other"]',
            "asks for 18000 s by '-W 5:00' in 'directives'",
        ),
        ("lsf", "requestWalltime: 3h", "the nearest, 'main', lacks walltime (3:00:00 asked, 2:00:00 there)"),
        ("lsf", 'bsub: ["-nnodes 3"]', "asks for all processors of its nodes by '-nnodes 3' in 'directives'"),
        ("lsf", "lsf: {exclusive: true}", "asks for all processors of its nodes by 'lsf.exclusive'"),
        ("lsf", 'bsub: ["-q night -x"]', "asks for all processors of its nodes by '-q night -x' in 'directives'"),
        ("lsf", 'bsub: ["-n 2,8"]', "asks for 8 by '-n 2,8' in 'directives'"),
        ("lsf", "lsf: {nodeCount: 5}", "asks for 5 by 'lsf.nodeCount'"),
        ("lsf", "bsub: ['-R \"affinity[core(2)*3]\"']", "asks for 6 by '-R \"affinity[core(2)*3]\"' in 'directives'"),
        ("lsf", "bsub: ['-R affinity[socket]']", "asks for all processors of its nodes by '-R affinity[socket]'"),
        ("lsf", 'lsf: {resource: "rusage[mem=9GB]"}', "asks for 9216 MiB by 'lsf.resource'"),
        ("lsf", "bsub: ['-n 4', '-R rusage[mem=3G/task]']", "asks for 12288 MiB by '-R rusage[mem=3G/task]' in"),
        ("lsf", "queue: debug\nrequestWalltime: 1h", "does not hold it: the nearest, 'debug', lacks walltime"),
        ("sge", "requestCpus: 16", "asks for 16 by 'requestCpus'; 'limits.cpus' of the site 'here' is 4"),
        ("sge", 'directives: ["-pe smp 2-16"]', "asks for 16 by '-pe smp 2-16' in 'directives'; 'limits.cpus'"),
        (
            "sge",
            'directives: ["-pe smp 4", "-l h_vmem=3G"]',
            "asks for 12288 MiB by '-l h_vmem=3G' in",
        ),
        ("sge", 'directives: ["-pe smp 2-"]', "asks for 9999999 by '-pe smp 2-' in 'directives'"),
        ("sge", 'directives: ["-pe smp 2-4"]\nrequestMemory: 8000', "asks for 16000 MiB by '-pe smp 2-4' in"),
        ("lsf", 'bsub: ["-n 4"]\nlsf: {memoryPer: task}\nrequestMemory: 3000', "asks for 12000 MiB by '-n 4' in"),
        ("sge", 'directives: ["-l exclusive=true"]', "asks for all processors of its nodes by '-l exclusive=true'"),
        ("sge", "requestResources: {excl: 1}", "asks for all processors of its nodes by 'requestResources'"),
        ("sge", 'directives: ["-l h_rss=9G"]', "asks for 9216 MiB by '-l h_rss=9G' in 'directives'"),
        ("sge", 'directives: ["-l h_rt=INFINITY"]', "asks for no time limit by '-l h_rt=INFINITY' in 'directives'"),
        ("sge", "sge: {nodeCount: 5, nodesEnvironment: mpi}", "asks for 5 by 'sge.nodeCount'"),
        ("sge", 'sge: {hard: "-l h_vmem=100G"}', "asks for 102400 MiB by 'sge.hard'; 'limits.memory'"),
        (
            "sge",
            "requestResources: {h_rt: 18000}\nqueue: other",
            "asks for 18000 s by 'requestResources'",
        ),
        (
            "sge",
            'directives: ["-l h_rt=3:00:00"]',
            "the nearest, 'main', lacks walltime (3:00:00 asked, 2:00:00 there)",
        ),
        ("sge", 'sge: {hard: "-q debug@@fast"}\nrequestWalltime: 1h', "the nearest, 'debug', lacks walltime"),
    ],
)
def test_what_a_site_does_not_allow_is_refused_on_every_dialect(service: str, more: str, words: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        prepare(more, service)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("service", "more"),
    [
        ("lsf", 'bsub: ["-n 4", "-M 8GB"]\nrequestWalltime: 2h'),
        ("lsf", 'bsub: ["-q other", "-n 2,4", "-R affinity[core(1)]"]'),
        ("htcondor", "profile: {condor: {request_cpus: 8 / 2}}"),
        ("sge", 'directives: ["-pe smp 4", "-l h_vmem=2G,h_rt=2:00:00"]'),
        ("sge", 'directives: ["-pe smp 4"]\nrequestMemory: 8192'),
        ("sge", 'sge: {soft: "-l h_vmem=100G"}'),
        ("sge", 'directives: ["-q other", "-l h_rt=3:00:00"]'),
    ],
)
def test_what_a_site_allows_is_prepared_on_every_dialect(service: str, more: str) -> None:
    prepare(more, service)


PILOTS = "packing: pilot\n"


@pytest.mark.parametrize(
    ("service", "more", "words"),
    [
        (
            "slurm",
            f"{PILOTS}pilot: {{cpus: 5}}",
            "run.yaml:14:15: each pilot asks for 5 by 'pilot.cpus';",
        ),
        ("slurm", f"{PILOTS}pilot: {{memory: 8 GiB}}", "asks for 8448 MiB by 'pilot.memory'; 'limits.memory'"),
        ("slurm", f"{PILOTS}pilot: {{walltime: 5h}}", "each pilot asks for 18000 s by 'pilot.walltime'"),
        ("slurm", f"{PILOTS}pilot: {{cpus: 2, nodes: 3, memory: 1}}", "each pilot asks for 6 by 'pilot.cpus'"),
        (
            "slurm",
            f"{PILOTS}slurm: {{exclusive: true}}",
            "asks for all processors of its nodes by 'slurm.excl",
        ),
        (
            "slurm",
            f"{PILOTS}directives: [--mincpus=5]",
            "14:14: each pilot asks for 5 by '--mincpus=5' in 'di",
        ),
        ("sge", f"{PILOTS}pilot: {{cpus: 5}}", "each pilot asks for 5 by 'pilot.cpus'; 'limits.cpus'"),
        ("lsf", f"{PILOTS}pilot: {{walltime: 5h}}", "each pilot asks for 18000 s by 'pilot.walltime'"),
        ("slurm", "slurm: {engineAs: job, engineJob: {cpu: 5}}", "run.yaml:13:41: the engine asks for 5 by 'slurm.eng"),
        ("slurm", "slurm: {engineAs: job, engineJob: {mem: 9G}}", "asks for 9216 MiB by 'slurm.engineJob.mem'"),
        ("slurm", "slurm: {engineAs: job, engineJob: {time: 5h}}", "asks for 18000 s by 'slurm.engineJob.time'"),
        (
            "slurm",
            "slurm: {engineAs: job, engineJob: {exclusive: true}}",
            "the engine asks for all processors of its",
        ),
        ("slurm", "slurm: {mode: native, engineJob: {cpu: 5}}", "the engine asks for 5 by 'slurm.engineJob.cpu'"),
        ("sge", "sge: {engineAs: job, engineJob: {time: 5h}}", "the engine asks for 18000 s by 'sge.engineJob.time'"),
        ("lsf", "lsf: {engineAs: job, engineJob: {time: 5h}}", "the engine asks for 18000 s by 'lsf.engineJob.time'"),
    ],
)
def test_what_a_service_submits_for_itself_keeps_to_the_ceilings(service: str, more: str, words: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        prepare(more, service)
    assert any(words in f"{each.origin}: {each.message}" for each in caught.value.details)


@pytest.mark.parametrize(
    "more",
    [
        f"{PILOTS}pilot: {{count: 40}}",
        f"{PILOTS}pilot: {{cpus: 4, memory: 7 GiB, walltime: 4h}}",
        "slurm: {engineAs: job}",
        'directives: ["--exclusive=user"]',
        'directives: ["-c 2 --threads-per-core=1"]',
    ],
)
def test_what_keeps_to_the_ceilings_is_prepared(more: str) -> None:
    prepare(more)


def test_a_whole_node_is_as_large_as_the_table_of_the_site_says() -> None:
    table = "partitions: [{{name: main, cpus: {}}}]\nslurm: {{exclusive: true}}"
    site = SITE.partition("        partitions:")[0] + "        "
    Path("run.yaml").write_text(f"{dedent(site).format(service='slurm').rstrip()}\n{table.format(4)}\n", "utf-8")
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())
    Path("run.yaml").write_text(f"{dedent(site).format(service='slurm').rstrip()}\n{table.format(8)}\n", "utf-8")
    with pytest.raises(LongshoreError, match=r"asks for a whole node of 8 processors by 'slurm\.exclusive'"):
        run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())


@pytest.mark.parametrize(
    ("service", "more", "first", "second", "words"),
    [
        ("slurm", 'directives: ["--mem=1G", "--mem-per-cpu=100"]', "13:14", "13:26", "exclude each other: a job has"),
        ("slurm", 'directives: ["--exclusive=user", "-s"]', "13:14", "13:34", "'--exclusive' or '--oversubscribe'"),
        ("slurm", 'slurm: {mem: 1G}\ndirectives: ["--mem-per-cpu=100"]', "13:14", "14:14", "exclude each other"),
        ("slurm", "slurm: {mem: 1G, memPerCpu: 100}", "13:14", "13:29", "exclude each other"),
        ("slurm", 'slurm: {nodeCount: 3}\ndirectives: ["--nodes=2"]', "13:20", "14:14", "things of '--nodes'"),
        ("slurm", 'slurm: {nodes: 3}\ndirectives: ["--nodes=2"]', "13:16", "14:14", "'slurm.nodeCount' is their"),
        ("slurm", 'slurm: {cpu: 2, sbatch: ["-c 3"]}', "13:14", "13:26", "different things of '--cpus-per-task'"),
        (
            "slurm",
            'directives: ["-p main"]\npipetask: {A: {slurm: {partition: short}}}',
            "14:35", "13:14", "different things of '--partition'",
        ),
        ("slurm", 'backendOptions: -p a\ndirectives: ["-p b"]', "backendOptions", "14:14", "different things of"),
        ("sge", 'sge: {hard: "-l a=1"}\ndirectives: ["-l a=2"]', "13:13", "14:14", "different things of '-l a'"),
        ("sge", 'sge: {priority: -3}\ndirectives: ["-p -2"]', "13:17", "14:14", "different things of '-p'"),
        ("lsf", 'bsub: ["-n 2", "-nnodes 1"]', "13:8", "13:16", "exclude each other"),
        ("lsf", 'lsf: {hosts: a}\nbsub: ["-m b"]', "13:14", "14:8", "different things of '-m'"),
        (
            "htcondor",
            'profile: {condor: {request_cpus: 2}}\ndirectives: ["request_cpus = 3"]',
            "13:34", "14:14", "different things of 'request_cpus'",
        ),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused_with_both_places(
    service: str, more: str, first: str, second: str, words: str
) -> None:
    with pytest.raises(LongshoreError) as caught:
        prepare(more, service)
    (found,) = (each for each in caught.value.details if words in each.message)
    assert str(found.origin).endswith(second)
    assert f"{first})" in found.message


@pytest.mark.parametrize(
    ("service", "more"),
    [
        ("slurm", 'slurm: {nodeCount: 2, mem: 1G}\ndirectives: ["-N 2", "--mem=1024M"]'),
        ("slurm", 'directives: ["-c 2", "-c 3"]'),
        ("slurm", 'requestCpus: 3\ndirectives: ["-c 2"]'),
        ("slurm", 'requestMemory: 300\ndirectives: ["--mem-per-cpu=100"]'),
        ("sge", 'directives: ["-l a=1", "-l a=2"]'),
        ("sge", 'sge: {soft: "-l a=1"}\ndirectives: ["-l a=2"]'),
        ("lsf", 'requestCpus: 2\nbsub: ["-n 3"]'),
        ("htcondor", 'profile: {condor: {request_cpus: 2}}\ndirectives: ["request_cpus = 2"]'),
        ("slurm", 'slurm: {partition: main}\npipetask: {A: {sbatch: ["-p short"]}}'),
        ("slurm", 'directives: ["-p main"]\npipetask: {A: {sbatch: ["-p short"]}}'),
        ("lsf", 'lsf: {hosts: a}\npipetask: {A: {bsub: ["-m b"]}}'),
    ],
)
def test_settings_that_agree_or_have_a_rank_are_prepared(service: str, more: str) -> None:
    prepare(more, service)


def test_a_line_of_the_user_wins_over_a_key_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    Path("sites/campus.yaml").write_text("service: slurm\nslurm: {nodeCount: 3, mem: 1G}\n", "utf-8")
    Path("run.yaml").write_text(
        'computeSite: campus\nsitePath: sites\nwfformat: graph.json\nrunQuantumCommand: "true"\n'
        'directives: ["--nodes=2", "--mem-per-cpu=100"]\n',
        "utf-8",
    )
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())


@pytest.mark.parametrize(
    ("service", "more", "taken", "note"),
    [
        ("slurm", 'directives: ["-n 3"]', "campus.perUser.jobs:1, campus.perUser.cpus:3", ""),
        ("slurm", "concurrencyLimit: db", "db, campus.perUser.jobs:1, campus.perUser.cpus:1", ""),
        ("slurm", "slurm: {exclusive: true}", "campus.perUser.jobs:1, campus.perUser.cpus:4", ""),
        ("slurm", "slurm: {mode: native}", None, "has no effect: with 'mode: native', Slurm gets all jobs"),
    ],
)
def test_a_job_takes_what_it_asks_for_of_the_limits_over_all_runs(
    service: str, more: str, taken: str | None, note: str
) -> None:
    Path("sites").mkdir()
    Path("sites/campus.yaml").write_text(
        f"service: {service}\nlimits: {{perUser: {{jobs: 9, cpus: 4}}}}\npartitions: [{{name: a, cpus: 4}}]\n", "utf-8"
    )
    Path("run.yaml").write_text(
        f'computeSite: campus\nsitePath: sites\nwfformat: graph.json\nrunQuantumCommand: "true"\n{more}\n', "utf-8"
    )
    progress = RecordingProgress(QuietProgress())
    run = resolve_at_chosen_site(Path("run.yaml"), now=0.0, progress=progress, with_probe=False)
    plan = advance_run(run, RunPlan, progress)
    assert next(iter(plan.workflow)).settings.attributes.get("concurrencyLimit") == taken
    assert note in "\n".join(progress.notes)
    limits = plan.run.context.settings["concurrency_limits"]
    assert limits["campus.perUser.jobs"] == 9
    with pytest.raises(LongshoreError, match=r"by 'requestCpus'; 'limits\.perUser\.cpus' of the site 'campus' is 4"):
        prepare_with("requestCpus: 5")


def prepare_with(more: str) -> None:
    Path("run.yaml").write_text(f"{Path('run.yaml').read_text('utf-8')}{more}\n", "utf-8")
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())


@pytest.mark.parametrize(
    ("more", "most_mib"),
    [
        ("", 8192),
        ("slurm: {nodeCount: 2}", 4096),
        ("slurm: {cpu1: 1}", 8192),
        ("slurm: {cpu1: 1, mem1: 2G}", 6144),
        ("requestMemoryMax: 3000", 3000),
    ],
)
def test_memory_grows_no_further_than_the_ceiling_allows_on_all_nodes(more: str, most_mib: int) -> None:
    text = f"{dedent(SITE).format(service='slurm')}requestMemory: 1024\nmemoryMultiplier: 2\n{more}\n"
    Path("run.yaml").write_text(text, "utf-8")
    progress = RecordingProgress(QuietProgress())
    run = resolve_at_chosen_site(Path("run.yaml"), now=0.0, progress=progress, with_probe=False)
    plan = advance_run(run, RunPlan, progress)
    largest = next(iter(plan.workflow)).settings.attributes["requestMemoryMax"]
    assert int(largest) // MIB in range(most_mib - 1, most_mib + 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"requestMemory": "5 GiB"}, "with 'requestMemory=5 GiB', jobs of 'A' ask for 10240 MiB of 'requestMemory'"),
        ({"requestCpus": "3"}, "with 'requestCpus=3', jobs of 'A' ask for 6 of 'requestCpus'"),
        ({"requestCpus": "5"}, "'requestCpus=5' asks for 5 of 'requestCpus', and 'limits.cpus' of the site is 4"),
    ],
)
def test_a_change_of_a_request_counts_with_what_else_a_job_asks_for(changes: dict[str, str], words: str) -> None:
    Path("run.yaml").write_text(
        f"{dedent(SITE).format(service='slurm')}requestMemory: 1024\nslurm: {{nodeCount: 2}}\n", "utf-8"
    )
    _, folder = run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())
    assert folder is not None
    with pytest.raises(RequestError, match=re.escape(words)):
        SlurmService().steer(RunPaths(folder), Intervention(act="set", selection=JobSelection(), set=changes))


@pytest.mark.parametrize(
    ("service", "line"),
    [("slurm", "#SBATCH -c 8"), ("slurm", "#SBATCH --exclusive"), ("sge", "#$ -pe smp 8"), ("lsf", "#BSUB -n 8")],
)
def test_a_template_of_a_user_does_not_pass_a_ceiling(service: str, line: str) -> None:
    shipped = shipped_template(service)
    first, _, rest = shipped.partition("\n")
    Path("mine.sh").write_text(f"{first}\n{rest}".replace("{% endfor %}", f"{{% endfor %}}\n{line}", 1), "utf-8")
    Path("plain.sh").write_text(shipped, "utf-8")
    text = dedent(SITE).format(service=service)
    Path("run.yaml").write_text(
        text.replace("    limits:", "    templates: {batch.sh: plain.sh}\n    limits:"), "utf-8"
    )
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())
    Path("run.yaml").write_text(text.replace("    limits:", "    templates: {batch.sh: mine.sh}\n    limits:"), "utf-8")
    option = line.partition(" ")[2]
    with pytest.raises(LongshoreError, match=re.escape(f"by lines of the template 'batch.sh': {option}")) as caught:
        run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())
    assert str(caught.value.details[0].origin).startswith("run.yaml:")


def shipped_template(service: str) -> str:
    return template_texts({"slurm": SlurmService, "sge": SgeService, "lsf": LsfService}[service])["batch.sh"]
