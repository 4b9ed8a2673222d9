"""Lint of files: it refuses what `transform` refuses for a static reason, and nothing that `transform` accepts."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.progress_notes import ProgressNotes

from longshore.config.schema import Severity
from longshore.errors import FilesError, LongshoreError, SubmissionRefusedError
from longshore.model.submission import SubmissionChecks
from longshore.plan.lint_file import lint_file
from longshore.plan.stages import Stage, run_stages
from longshore.plan.submission import submit

BASE: Final[dict[str, Any]] = yaml.safe_load(
    """
    dataQuery: visit > 1
    scale: 3
    requestMemory: 100
    pipeline:
      dimensions:
        visit: [1, 2, 3]
        band: [g, r]
      relations:
        seen: {columns: [visit, band], rows: [[1, g], [2, r], [3, g]]}
      datasets:
        raw: "raw-{visit}.fits"
        image: "image-{visit}-{band}.fits"
      tasks:
        calibrate:
          dimensions: [visit, band]
          command: [cp, "{raw}", "{image}"]
          inputs: [raw]
          outputs: [image]
        stack:
          dimensions: [band]
          command: "echo {scale} {image} > {stack}"
          inputs: [image]
          outputs: {stack: "stack-{band}.fits"}
        check: {command: "true", after: [stack]}
    pipetask:
      calibrate: {requestCpus: 2, requestWalltime: "1h"}
      stack: {requestMemory: 200}
    finalJob: {whenRun: ALWAYS, command1: "echo {scale}"}
    clusterAlgorithm: dimension_clustering
    cluster: {all: {pipetasks: "calibrate,stack", dimensions: band}}
    """
)
WORDS: Final = ("visit", "band", "raw", "image", "stack", "calibrate", "nope", "{nope}", "{visit}", "", "true", "local")
VALUES: Final[tuple[Any, ...]] = (
    *WORDS,
    0,
    -1,
    1.5,
    True,
    None,
    [],
    {},
    ["visit"],
    ["stack"],
    {"a": "b"},
    "{visit",
    "a b",
    "1h",
    "ALWAYS",
)


def spots(tree: Any) -> list[tuple[Any, Any]]:
    """Every map or list of a tree with each of its keys or indices."""
    items = list(tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ())
    return [(tree, key) for key, _ in items] + [spot for _, below in items for spot in spots(below)]


def broken(chance: Random) -> Any:
    """The base with one to three changes: a value replaced, a key renamed, removed or added."""
    tree = yaml.safe_load(yaml.safe_dump(BASE, sort_keys=False))
    for _ in range(chance.randint(1, 3)):
        holder, key = chance.choice(spots(tree) or [({}, "")])
        kind = chance.choice(("replace", "rename", "remove", "add"))
        if kind == "replace":
            holder[key] = chance.choice(VALUES)
        elif kind == "remove":
            holder.pop(key, None) if isinstance(holder, dict) else holder.pop(key)
        elif isinstance(holder, dict):
            new = chance.choice([*WORDS[:7], str(key)[:-1], f"{key}s", "input", "command", "computeSite"])
            holder[new] = holder.pop(key, None) if kind == "rename" else chance.choice(VALUES)
    return tree


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the inputs of the base."""
    monkeypatch.chdir(tmp_path)
    for visit in (1, 2, 3):
        (tmp_path / f"raw-{visit}.fits").touch()
    return tmp_path


def transform_error(path: Path) -> LongshoreError | None:
    """What `transform` raises for a configuration."""
    try:
        run_stages(path, Stage.TRANSFORM, progress=ProgressNotes())
    except LongshoreError as error:
        return error
    return None


def is_static(error: LongshoreError) -> bool:
    """Whether a refusal depends on the configuration alone: not on files, programs, or the size of the machine."""
    details = error.details or (error,)
    return not (
        (isinstance(error, FilesError) and "both write" not in error.message)
        or any(each.code in {"files", "request"} and "both write" not in each.message for each in details)
    )


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32))
@example(7380000)
@pytest.mark.usefixtures("folder")
def test_lint_refuses_what_transform_refuses_and_nothing_else(seed: int) -> None:
    path = Path("run.yaml")
    path.write_text(yaml.safe_dump(broken(Random(seed)), sort_keys=False), "utf-8")
    error = transform_error(path)
    errors = [each for each in lint_file(path).findings if each.severity is Severity.ERROR]
    if error is None:
        assert errors == []
    elif is_static(error):
        told = {(each.message, each.origin) for each in errors}
        assert told, error
        for each in error.details or (error,):
            assert (each.message.partition(" (and ")[0], each.origin) in told or each.origin is None


@pytest.mark.usefixtures("folder")
def test_a_right_configuration_has_no_findings() -> None:
    path = Path("run.yaml")
    path.write_text(yaml.safe_dump(BASE, sort_keys=False), "utf-8")
    assert transform_error(path) is None
    linted = lint_file(path)
    assert linted.findings == ()
    assert linted.left_out == ()


@pytest.mark.parametrize(("values", "number"), [("[A, B, C, D]", "4"), ("{range: [1, 20000]}", "several")])
@pytest.mark.usefixtures("folder")
def test_a_task_that_writes_several_files_is_noted_as_its_dimensions_may_be_forgotten(values: str, number: str) -> None:
    path = Path("run.yaml")
    tasks = "tasks: {count: {command: 'wc > {n}', outputs: {n: 'n-{s}'}}, DIMENSIONS}"
    text = f"pipeline:\n  dimensions: {{s: {values}}}\n  {tasks}\n"
    path.write_text(text.replace("DIMENSIONS", "one: {dimensions: [s], command: 'true'}"), "utf-8")
    (note,) = lint_file(path).findings
    assert note.severity is Severity.NOTE
    assert note.message == f"the task 'count' writes {number} files of 'n' in one job"
    assert note.hint == "For one job per file, add s to the task's 'dimensions'."
    assert str(note.origin).startswith("run.yaml:3:")
    path.write_text(text.replace("wc > {n}'", "wc > {n}', dimensions: [s]").replace(", DIMENSIONS", ""), "utf-8")
    assert lint_file(path).findings == ()


@pytest.mark.usefixtures("folder")
def test_a_missing_table_is_an_error_as_transform_refuses_it() -> None:
    path = Path("run.yaml")
    tasks = "tasks: {one: {dimensions: [s], command: 'true'}}"
    path.write_text(f"pipeline:\n  dimensions: {{s: {{table: gone.csv}}}}\n  {tasks}\n", "utf-8")
    error = transform_error(path)
    assert isinstance(error, FilesError)
    (finding,) = lint_file(path).findings
    assert (finding.severity, finding.message, finding.origin) == (Severity.ERROR, error.message, error.origin)


@pytest.mark.usefixtures("folder")
def test_a_missing_program_at_the_beginning_of_a_shell_line_is_noted() -> None:
    path = Path("run.yaml")
    task = "one: {command: \"awkk '$3 > 50' < /dev/null > {o}\", outputs: {o: out}}"
    path.write_text(f"pipeline:\n  tasks:\n    {task}\n", "utf-8")
    (note,) = lint_file(path).findings
    assert note.severity is Severity.NOTE
    assert note.message.startswith("job 'one' runs 'awkk', which is not on the PATH")
    assert str(note.origin) == "run.yaml:3:20"
    assert transform_error(path) is None, "the shell may know it"
    path.write_text(path.read_text("utf-8").replace("awkk", "awk"), "utf-8")
    assert lint_file(path).findings == ()


LARGE: Final = """
maxTasks: 3000000
pipeline:
  dimensions: {a: {range: [1, 1000]}, b: {range: [1, 1000]}}
  tasks:
    one: {dimensions: [a, b], command: 'echo {a} > {x}', outputs: {x: 'x-{a}-{b}'}}
    two: {dimensions: [b], command: 'cat {x} > {y}', inputs: [x], outputs: {y: 'y-{b}'}}
    three: {dimensions: [a, b], command: 'true', after: [two]}
"""


@pytest.mark.usefixtures("folder")
def test_a_large_payload_takes_bounded_time() -> None:
    path = Path("run.yaml")
    path.write_text(LARGE, "utf-8")
    began = time.process_time()
    linted = lint_file(path)
    assert time.process_time() - began < 10, "as long as its dimensions, not as its two million tasks"
    assert linted.findings == ()
    assert "tasks, and files that two of them write" in linted.left_out[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x-{a}-{b}", "x-{b}", "the tasks 'one_1_1' and 'one_2_1' both write the file 'x-1'"),
        ("echo {a}", "echo {nope}", "the command uses '{nope}', which nothing defines"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_fault_of_a_large_payload_is_found(old: str, new: str, message: str) -> None:
    path = Path("run.yaml")
    text = LARGE.replace("1000]", "150]").replace("maxTasks: 3000000\n", "").replace(old, new)
    path.write_text(text, "utf-8")
    error = transform_error(path)
    assert error
    assert error.message == message
    assert (message, error.origin) in [(each.message, each.origin) for each in lint_file(path).findings]


WRONG_SITES: Final = [
    "service: local, setup: .inf",
    "service: slurm, setup: {submit: 3}",
    "service: slurm, partitions: [{name: a, cpus: [3]}]",
    "service: slurm, partitions: [{name: a, cpus: a/b}, 7]",
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("site", WRONG_SITES)
def test_jobs_are_not_made_for_a_site_with_errors(site: str) -> None:
    path = Path("run.yaml")
    path.write_text(
        f"pipeline: {{tasks: {{one: {{command: 'true'}}}}}}\ncomputeSite: s\nsite: {{s: {{{site}}}}}\n", "utf-8"
    )
    linted = lint_file(path)
    wrong = [each for each in linted.findings if each.severity is Severity.ERROR]
    assert wrong
    assert all(each.origin.line == 3 for each in wrong)
    assert linted.left_out[0] == "jobs, because the description of the site has errors"


@pytest.mark.usefixtures("folder")
def test_the_name_of_a_site_may_be_longer_than_that_of_a_file() -> None:
    path = Path("run.yaml")
    path.write_text(f"pipeline: {{tasks: {{one: {{command: 'true'}}}}}}\ncomputeSite: {'x' * 300}\n", "utf-8")
    assert lint_file(path).findings[0].message.startswith("there is no site 'xxx")


FUNCTIONS: Final = [
    ("pipetask: {one: {requestMemory: 'bpsEval(mine.memory, 2)'}}\n", "tasks and jobs, which need code of"),
    ("bpsGenerateConfig: 'mine.more()'\n", "a function generates parts"),
    ("clusterAlgorithm: mine.cluster\n", "tasks and jobs, which need code of"),
]


@pytest.mark.parametrize(("text", "left_out"), FUNCTIONS, ids=["value", "section", "clusters"])
def test_no_function_is_called(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, left_out: str) -> None:
    (folder / "mine.py").write_text("raise SystemExit('called')\n", "utf-8")
    monkeypatch.syspath_prepend(folder)
    path = Path("run.yaml")
    path.write_text(f"pipeline: {{tasks: {{one: {{command: 'true'}}}}}}\n{text}", "utf-8")
    linted = lint_file(path)
    assert linted.count(Severity.ERROR) == 0
    assert left_out in linted.left_out[0]


DOUBTFUL: Final = """
pipeline:
  dimensions: {x: [1, 2]}
  tasks:
    a: {dimensions: [x], command: 'echo {x}'}
maxJobs: {heavy: 1}
concurrencyLimits: {db: 1}
pipetask: {a: {category: heavvy, concurrencyLimit: dbb}}
ordering: {o: {labels: aa, dimensions: x}}
"""


@pytest.mark.usefixtures("folder")
def test_lint_warns_of_what_a_strict_submission_refuses() -> None:
    path = Path("run.yaml")
    path.write_text(DOUBTFUL, "utf-8")
    with pytest.raises(SubmissionRefusedError) as caught:
        submit(path, checks=SubmissionChecks(strict=True), progress=ProgressNotes())
    refused = sorted(each.message for each in caught.value.details)
    warnings = lint_file(path).findings
    assert {each.severity for each in warnings} == {Severity.WARNING}
    texts = [f"{each.origin}: {each.message}" + (f". {each.hint}" if each.hint else "") for each in warnings]
    assert sorted(f"'--strict' refuses this: {text}" for text in texts) == refused
    assert [(each.origin.line, each.hint) for each in warnings] == [
        (8, "Did you mean 'heavy'?"),
        (8, "Did you mean 'db'?"),
        (9, ""),
    ]


@pytest.mark.usefixtures("folder")
def test_a_strict_submission_refuses_a_key_that_the_file_of_the_payload_does_not_use() -> None:
    Path("pipe.yaml").write_text("tasks: {isr: {command: 'echo {tier}'}}\n", "utf-8")
    path = Path("run.yaml")
    path.write_text("pipelineYaml: pipe.yaml\npipetask:\n  isr: {sitte: bar, tier: 2}\n", "utf-8")
    with pytest.raises(SubmissionRefusedError, match=r"run\.yaml:3:9: nothing uses 'pipetask\.isr\.sitte'"):
        submit(path, checks=SubmissionChecks(strict=True), progress=ProgressNotes())
    assert not Path("submit").exists()
    assert [(str(each.origin), each.message) for each in lint_file(path).findings] == [
        ("run.yaml:3:9", "nothing uses 'pipetask.isr.sitte'")
    ]


def test_the_users_own_configuration_needs_no_payload(own_environment: Path) -> None:
    path = own_environment / ".config" / "longshore" / "longshore.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("requestMemory: 5\n", "utf-8")
    assert lint_file(path).findings == ()


@pytest.mark.usefixtures("folder")
def test_a_configuration_for_submitcmd_needs_no_payload() -> None:
    Path("job.sh").write_text("#!/bin/sh\n", "utf-8")
    path = Path("run.yaml")
    path.write_text("customJob: {executable: job.sh, arguments: x}\n", "utf-8")
    assert lint_file(path).findings == ()
    path.write_text("customJob: {executable: job.sh, inputs: {a: job.sh}, outputs: {a: b}}\n", "utf-8")
    assert [each.message for each in lint_file(path).findings] == ["'a' is both an input and an output"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "limits: {cpus: 1}",
            "job 'a' asks for 2 by 'requestCpus'; 'limits.cpus' of the site 'local' is 1 (run.yaml:2:16)",
        ),
        ("service: slurm", "nothing uses 'service'"),
    ],
)
def test_a_run_with_a_key_of_profiles_is_checked_as_a_run(key: str, message: str) -> None:
    path = Path("run.yaml")
    path.write_text(f"requestCpus: 2\n{key}\npipeline: {{tasks: {{a: {{command: 'true'}}}}}}\n", "utf-8")
    assert [each.message for each in lint_file(path).findings] == [message]


@pytest.mark.usefixtures("folder")
def test_a_profile_of_a_site_needs_no_payload() -> None:
    path = Path("cluster.yaml")
    path.write_text("service: local\nlimits: {cpus: many}\n", "utf-8")
    assert [str(each.origin) for each in lint_file(path).findings] == ["cluster.yaml:2:16"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("service: slurm", "It is a key of sites. The service of a run is 'wmsServiceClass'."),
        ("account: physics", "It is a key of sites: write it below 'site.local', or in a profile."),
        ("hosts: [a]", "It is a key of sites: write it below 'site.local', or in a profile."),
    ],
)
def test_a_key_of_sites_at_the_root_has_a_hint(key: str, hint: str) -> None:
    path = Path("run.yaml")
    path.write_text(f"{key}\npipeline: {{tasks: {{a: {{command: 'true'}}}}}}\n", "utf-8")
    assert [each.hint for each in lint_file(path).findings] == [hint]


OTHER_TOOLS: Final = [
    ("retries: 3", "numberOfRetries"),
    ("memory: 4 GiB", "requestMemory"),
    ("cpus: 2", "requestCpus"),
    ("walltime: 1h", "requestWalltime"),
    ("partition: debug", "queue"),
    ("env: {A: b}", "environment"),
]


@pytest.mark.parametrize(("text", "own"), OTHER_TOOLS, ids=lambda each: each.partition(":")[0])
def test_words_of_other_tools_lead_to_the_key(folder: Path, text: str, own: str) -> None:
    path = folder / "run.yaml"
    path.write_text(f"pipeline: {{tasks: {{one: {{command: 'true'}}}}}}\n{text}\n", "utf-8")
    (found,) = lint_file(path).findings
    assert (found.origin.line, found.origin.column, found.hint) == (2, 1, f"Did you mean '{own}'?")


def test_tasks_at_the_root_belong_under_pipeline(folder: Path) -> None:
    path = folder / "run.yaml"
    path.write_text("payload: {payloadName: a}\ntasks:\n  a: {command: echo}\n", "utf-8")
    found = lint_file(path).findings
    assert [each.origin.line for each in found if each.severity is Severity.ERROR] == [3]
    assert all("'tasks' belongs under 'pipeline'" in f"{each.message} {each.hint}" for each in found)


@pytest.mark.parametrize("name", ["slurm-cluste", "nothing-near"])
def test_an_unknown_site_names_sites_and_no_folders(folder: Path, name: str) -> None:
    path = folder / "run.yaml"
    path.write_text(f"pipeline: {{tasks: {{one: {{command: 'true'}}}}}}\ncomputeSite: {name}\n", "utf-8")
    (found,) = lint_file(path).findings
    assert "'slurm-cluster'" in found.hint
    assert "/" not in found.hint


REFUSED_HERE: Final = {
    "a missing input": ("{inputs: {x: /nowhere/in.txt}, command: 'cat {x}'}", "", "'/nowhere/in.txt' does not exist"),
    "too much memory": ("{command: 'true'}", "requestMemory: 400 TiB", "asks for 419430400 MiB of 'memory'"),
    "too many processors": ("{command: 'true'}", "requestCpus: 100000", "asks for 100000 of 'cpus'"),
    "no program": ("{command: nosuchprogram}", "", "runs 'nosuchprogram', which is not on the PATH"),
    "a file in the way": (
        "{outputs: {y: /etc/hostname/y}, command: 'touch {y}'}",
        "",
        "'/etc/hostname' is no directory",
    ),
    "an output in the kernel's folder": (
        "{outputs: {y: /proc/none/y}, command: 'touch {y}'}",
        "",
        "no file can be made",
    ),
    "no file of a glob": ("{dimensions: [n], command: 'echo {n}'}", "", "no file matches"),
}
"""Task and key of a configuration that this machine can never run, and what is said of it."""


@pytest.mark.parametrize(("task", "key", "message"), REFUSED_HERE.values(), ids=REFUSED_HERE.keys())
@pytest.mark.usefixtures("folder")
def test_what_this_machine_cannot_run_is_found_as_by_submit(task: str, key: str, message: str) -> None:
    path = Path("run.yaml")
    dimensions = "dimensions: {n: {glob: '/nowhere/{n}.fits'}}, " if "[n]" in task else ""
    path.write_text(f"wmsServiceClass: local\n{key}\npipeline: {{{dimensions}tasks: {{a: {task}}}}}\n", "utf-8")
    linted = lint_file(path)
    (found,) = [each for each in linted.findings if each.severity is Severity.ERROR]
    assert message in found.message
    with pytest.raises(LongshoreError) as caught:
        submit(path, progress=ProgressNotes())
    assert (caught.value.message, caught.value.exit_status) == (found.message, linted.exit_status())


@pytest.mark.usefixtures("folder")
def test_a_run_directory_that_cannot_be_made_is_found() -> None:
    path = Path("run.yaml")
    path.write_text(
        "wmsServiceClass: local\nsubmitPath: '/proc/none/{outputRun}'\npipeline: {tasks: {a: {command: 'true'}}}\n",
        "utf-8",
    )
    linted = lint_file(path)
    assert ["cannot be written" in each.message for each in linted.findings] == [True]
    with pytest.raises(FilesError) as caught:
        submit(path, progress=ProgressNotes())
    assert linted.exit_status() == caught.value.exit_status


@pytest.mark.usefixtures("folder")
def test_files_of_jobs_on_other_machines_are_noted() -> None:
    path = Path("run.yaml")
    path.write_text(
        "computeSite: s\nsite: {s: {service: slurm}}\npipeline: {tasks: {a: {command: nosuchprogram}}}\n", "utf-8"
    )
    linted = lint_file(path)
    assert [(each.severity, "as seen from this host" in each.message) for each in linted.findings] == [
        (Severity.NOTE, True)
    ]
    assert (linted.exit_status(), linted.left_out) == (0, ("what the workload manager offers now",))


MISSING_PLUGINS: Final = {
    "service": ("wmsServiceClass: no_such_package.Service", "the service 'no_such_package.Service' cannot be imported"),
    "clusters": ("clusterAlgorithm: no_such_package.cluster", "the clustering algorithm 'no_such_package.cluster'"),
}


@pytest.mark.parametrize("imports_code", [False, True])
@pytest.mark.parametrize(("key", "message"), MISSING_PLUGINS.values(), ids=MISSING_PLUGINS.keys())
@pytest.mark.usefixtures("folder")
def test_lint_goes_on_after_a_plug_in_that_cannot_be_imported(key: str, message: str, *, imports_code: bool) -> None:
    path = Path("run.yaml")
    path.write_text(f"{key}\nrequestMemroy: 3\npipeline:\n  tasks:\n    a: {{command: 'echo {{nope}}'}}\n", "utf-8")
    found = [(each.origin.line, each.message) for each in lint_file(path, imports_code=imports_code).findings]
    assert [line for line, _ in found] == [1, 2, 5]
    assert message in found[0][1]
    assert "uses '{nope}'" in found[2][1]


def test_a_plug_in_is_looked_for_before_a_quantum_graph_is_made(folder: Path) -> None:
    path = Path("run.yaml")
    path.write_text(
        "wmsServiceClass: local\npipelineYaml: DRP.yaml\nbutlerConfig: repo\ninCollection: c\n"
        f"createQuantumGraph: 'touch {folder}/made'\nclusterAlgorithm: no_such_package.cluster\n",
        "utf-8",
    )
    Path("DRP.yaml").write_text("tasks: {isr: {class: lsst.ip.isr.IsrTask}}\ndescription: x\n", "utf-8")
    with pytest.raises(LongshoreError, match="cannot be imported"):
        submit(path, progress=ProgressNotes())
    assert not (folder / "made").exists()
