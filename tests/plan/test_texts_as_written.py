"""A number, a date or a truth value arrives as it was typed, wherever nothing asks for its type."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.progress_notes import ProgressNotes

from longshore.config.layers import Overrides
from longshore.config.profile import ServiceKeys, compile_profile
from longshore.config.schemas import configuration_schema
from longshore.errors import LongshoreError
from longshore.model.file_identity import FileIdentity
from longshore.model.workflow import Job
from longshore.plan.configuration import read_draft_without_code
from longshore.plan.fingerprint import configuration_values, find_changed_values
from longshore.plan.lint import lint_configuration
from longshore.plan.lint_file import lint_file
from longshore.plan.pipeline_files import read_pipeline_file
from longshore.plan.resolved_run import resolve_run
from longshore.plan.run_plan import RunPlan
from longshore.plan.stages import advance_run
from longshore.progress import RecordingProgress

WORDS = [
    *(
        "1.10",
        "3.10",
        "007",
        "010",
        "08",
        "123_456",
        "1_2344_5678",
        "0x1F",
        "0o17",
        "0b11",
        "1e-3",
        "1E5",
        "+5",
        ".5",
        "5.",
    ),
    *(
        "no",
        "No",
        "YES",
        "on",
        "off",
        "true",
        "False",
        "2024-01-01",
        "1:30",
        "1:30:00",
        ".inf",
        "-.INF",
        ".nan",
        "-0",
        "0.0",
    ),
    *("1.0", "1e400", "9" * 400, "-7", "10", "abc", "1.2.3", "00", "1__0", "0x", "1e", "2024-01-01T10:00:00Z"),
]
texts = st.sampled_from(WORDS) | st.from_regex(
    r"[-+]?(0[0-9]{1,5}|[0-9]{1,3}(_[0-9]{3}){1,2}|[0-9]{1,4}\.[0-9]{0,3}0|0x[0-9A-Fa-f]{1,4}|[0-9]{1,2}e[-+]?[0-9])",
    fullmatch=True,
)
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def jobs_of(text: str, *sets: str, **files: str) -> list[Job]:
    """The jobs of a run, of which only the directory is not made."""
    for name, content in files.items():
        Path(name.replace("_", ".")).write_text(content, "utf-8")
    Path("run.yaml").write_text(text, "utf-8")
    run = resolve_run(Path("run.yaml"), Overrides(sets=sets), now=0.0, progress=ProgressNotes(), run_id="k00000")
    plan = advance_run(run, RunPlan, RecordingProgress(ProgressNotes()))
    return list(plan.workflow)


NAMES = "{v} {s} {x} {y} {z} {w} {y.c} {p} {payloadName}"
ALL = """
s: x
v: {text}
payloadName: {text}
project: {text}
requestMemory: 10
environment: {{E: {text}, F: "{{v}}", G: "{{x}}"}}
pipeline:
  parameters: {{p: {text}}}
  dimensions: {{x: [{text}], y: {{table: t.csv}}, z: {{table: t.jsonl}}, w: ["{text}"]}}
  datasets: {{out: "o/{{x}}/{{y.c}}"}}
  tasks:
    a: {{dimensions: [x, y, z, w], outputs: [out], command: "echo {names}"}}
    b: {{command: [echo, {text}, "{{v}}", "{{s}}"], after: [a]}}
"""


@settings(max_examples=examples(40), deadline=None)
@given(texts)
@example("1.10")
@example("no")
@example("007")
def test_a_text_arrives_from_every_source_at_every_place(text: str) -> None:
    in_json = text if _JSON_NUMBER.fullmatch(text) else json.dumps(text)
    first, second = jobs_of(
        ALL.format(text=text, names=NAMES), f"s={text}", t_csv=f"y,c\n{text},{text}\n", t_jsonl=f'{{"z": {in_json}}}\n'
    )
    assert first.command == "echo" + f" {text}" * 9
    assert second.command == ("echo", text, text, text)
    assert first.name == "_".join(["a", *[text] * 4])
    assert {name: str(value) for name, value in first.tags.items()} == dict.fromkeys("xyzw", text)
    assert {**first.settings.environment, **first.environment} == {"E": text, "F": text, "G": text}
    assert first.outputs == (f"o/{text}/{text}",)
    assert [each for each in lint_file(Path("run.yaml"), now=0).findings if "executable" not in each.message] == []


NO_VALUE = re.escape("'{s}' has no value: 's' is null")
ONE = 'requestMemory: 10\npipeline:\n  dimensions: {x: %s}\n  tasks: {a: {dimensions: [x], command: "echo {x}"}}\n'


def values_of(values: str, query: str = "", **files: str) -> list[Any]:
    """The values of the dimension, in the order of the jobs."""
    text = ONE % values + (f'dataQuery: "{query}"\n' if query else "")
    return [job.tags["x"] for job in jobs_of(text, **files)]


@pytest.mark.parametrize(
    ("values", "in_order"),
    [
        ("[1.20, 1.9, 1.10]", ["1.10", "1.20", "1.9"]),
        ("[10, 9, 007]", ["007", "9", "10"]),
        ("['10', '9']", ["9", "10"]),
        ("[10, 9]", [9, 10]),
        ("[10, 9, b]", ["10", "9", "b"]),
        ("[1, 1.0]", ["1", "1.0"]),
        ("[no, yes]", ["no", "yes"]),
        ("{range: [09, 11]}", [9, 10, 11]),
        ("{range: [0x9, 1_1]}", [9, 10, 11]),
    ],
)
def test_data_ids_are_texts_and_sorted_by_value_where_all_have_one(values: str, in_order: list[Any]) -> None:
    found = values_of(values)
    assert [(type(value), value) for value in found] == [(type(value), value) for value in in_order]


@pytest.mark.parametrize("source", ["x\n10\n9\n007\n", '{"x": 10}\n{"x": "9"}\n{"x": "007"}\n'])
def test_a_table_is_sorted_as_a_list(source: str) -> None:
    name = "t.jsonl" if source.startswith("{") else "t.csv"
    assert values_of(f"{{table: {name}}}", **{name.replace(".", "_"): source}) == ["007", "9", "10"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("x > 8", ["9", "010"]),
        ("x = 7", ["007"]),
        ("x = '007'", ["007"]),
        ("x = '7'", None),
        ("x IN (7, 10)", ["007", "010"]),
        ("x IN ('007', 10)", ["007", "010"]),
        ("x IN (7..9)", ["007", "9"]),
        ("x GLOB '0*'", ["007", "010"]),
        ("x < 1e1", ["007", "9"]),
    ],
)
def test_a_comparison_takes_the_value(query: str, found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(LongshoreError, match="the query leaves nothing"):
            values_of("[007, 9, 010]", query)
    else:
        assert values_of("[007, 9, 010]", query) == found


def test_a_table_and_a_list_are_joined_by_text() -> None:
    text = """
requestMemory: 10
pipeline:
  dimensions: {v: [1.10, 1.1, 2], s: [a, b, c]}
  relations: {r: {table: t.csv}, q: {columns: [v, s], rows: [[1.1, b], ['1.10', a], [2, c]]}}
  tasks: {a: {dimensions: [v, s], command: "echo {v} {s}"}}
"""
    found = jobs_of(text, t_csv="v,s\n1.10,a\n1.1,b\n2.0,c\n")
    assert [job.command for job in found] == ["echo 1.1 b", "echo 1.10 a"]


@pytest.mark.parametrize(
    ("value", "spec", "written"),
    [
        ("007", "03d", "007"),
        ("7", "03d", "007"),
        ("010", "d", "10"),
        ("0x1F", "d", "31"),
        ("123_456", ",d", "123,456"),
        ("1.10", ".3f", "1.100"),
        ("1e-3", ".4f", "0.0010"),
        ("1.10", "s", "1.10"),
        ("007", "05", "00007"),
        ("no", "s", "no"),
    ],
)
def test_a_format_with_a_type_takes_the_value(value: str, spec: str, written: str) -> None:
    text = f"v: {value}\n{ONE % f'[{value}]'}".replace("echo {x}", f"echo {{x:{spec}}} {{v:{spec}}} {{s:{spec}}}")
    (job,) = jobs_of(text, f"s={value}")
    assert job.command == f"echo {written} {written} {written}"


@pytest.mark.parametrize(
    ("line", "memory_mib"),
    [
        ("requestMemory: 0100", 100),
        ("requestMemory: 1_000", 1000),
        ("requestMemory: 0x10", 16),
        ("requestMemory: 1e3", 1000),
        ("m: 0100\nrequestMemory: '{m}'", 100),
        ("m: 0100\nrequestMemory: '{m} * 2'", 200),
        ("m: 1_000\nrequestMemory: '{m} + 0x10'", 1016),
        ("m: 1e3\nrequestMemory: '{m}'", 1000),
        ("m: 1e3\nrequestMemory: '{m} * 2'", 2000),
        ("requestMemory: '{x} * 10'", 70),
        ("m: 010\nrequestMemory: bpsEval(max, [{m}, 3])", 10),
    ],
)
def test_a_request_takes_the_value(line: str, memory_mib: int) -> None:
    (job,) = jobs_of((ONE % "[007]").replace("requestMemory: 10", line))
    assert job.settings.request.memory_b == memory_mib * 2**20


def test_a_function_takes_values_and_texts_in_quotation_marks() -> None:
    text = 'v: 1.10\nflag: no\nn: 010\nrequestMemory: 10\npipeline: {tasks: {a: {command: "echo %s"}}}\n'
    calls = "bpsEval(str, {v}) bpsEval(str, '{v}') bpsEval(str, {flag}) bpsEval(str, {n}) bpsEval(len, '{flag}')"
    (job,) = jobs_of(text % calls)
    assert job.command == "echo 1.1 1.10 False 10 2"


@pytest.mark.parametrize("word", ["null", "~", "Null"])
def test_null_is_an_error_in_a_command_and_a_text_in_quotation_marks_or_a_cell(word: str) -> None:
    command = 'requestMemory: 10\npipeline: {tasks: {a: {command: "echo {s}"}}}\n'
    with pytest.raises(LongshoreError, match=NO_VALUE) as caught:
        jobs_of(f"{command}s: {word}\n")
    assert str(caught.value.origin) == "run.yaml:2:33"
    with pytest.raises(LongshoreError, match=NO_VALUE):
        jobs_of(f"{command}s: x\n", f"s={word}")
    assert [job.command for job in jobs_of(f"{command}s: '{word}'\n")] == [f"echo {word}"]
    assert [job.command for job in jobs_of(f"{command}s: x\n", f"s='{word}'")] == [f"echo {word}"]
    assert values_of("{table: t.csv}", t_csv=f"x\n{word}\n") == [word]
    with pytest.raises(LongshoreError, match="has nothing where a text or a number must be"):
        values_of("{table: t.jsonl}", t_jsonl='{"x": null}\n')


def test_a_list_in_a_command_has_its_texts_and_no_null() -> None:
    command = "requestMemory: 10\npipeline: {tasks: {a: {command: \"echo '{s}'\"}}}\n"
    assert [job.command for job in jobs_of(f"{command}s: [1.10, 007, no, true]\n")] == ["echo '[1.10, 007, no, true]'"]
    assert [job.command for job in jobs_of(command, "s=[1.10, 007, no]")] == ["echo '[1.10, 007, no]'"]
    with pytest.raises(LongshoreError, match=r"has an item without a value: it is null at run\.yaml:3:8") as caught:
        jobs_of(f"{command}s: [x, ~]\n")
    assert str(caught.value.origin).startswith("run.yaml:2:")


@pytest.mark.parametrize(
    ("typed", "arrives"),
    [("a #b", "'a #b'"), ("#b", "'#b'"), ("1.10 #b", "'1.10 #b'"), ("a  b ", "a  b "), ("'007'", "007"), ("", "")],
)
def test_a_word_of_set_is_all_that_was_typed(typed: str, arrives: str) -> None:
    (job,) = jobs_of('s: x\nrequestMemory: 10\npipeline: {tasks: {a: {command: "echo {s}>o"}}}\n', f"s={typed}")
    assert job.command == f"echo {arrives}>o"


def test_labels_and_names_that_look_like_numbers() -> None:
    text = """
requestMemory: 10
pipeline:
  datasets: {out: 1.10}
  tasks:
    007: {command: "true", outputs: [out]}
    no: {command: "true", after: [007]}
    1e3: {command: "true", after: no}
pipetask: {007: {requestMemory: 20}}
"""
    found = {job.name: job for job in jobs_of(text)}
    assert list(found) == ["007", "no", "1e3"]
    assert found["007"].outputs == ("1.10",)
    assert found["007"].settings.request.memory_b == 20 * 2**20


SLURM = """
wmsServiceClass: slurm
computeSite: here
queue: 007
accountingGroup: 1e3
site: {here: {service: slurm, modules: [3.10, gcc], umask: 0027, slurm: {qos: 010}}}
requestMemory: 10
slurm: {features: [1.10, no], exclusive: no, nodeCount: 2, sbatch: ["--x=%s", 1_0]}
pipeline: {tasks: {a: {command: "true"}}}
"""


def test_settings_of_sites_and_services_are_texts_but_where_their_schema_has_numbers() -> None:
    Path("run.yaml").write_text(SLURM, "utf-8")
    draft = read_draft_without_code(Path("run.yaml"))
    assert draft.site_errors == ()
    settings = draft.resolved_site.settings
    assert settings["modules"] == ["3.10", "gcc"]
    assert settings["slurm"]["qos"] == "010"
    assert settings["umask"] == "0027"
    keys = ServiceKeys(map="slurm", schema=configuration_schema)
    profile = compile_profile(draft.config, "a", draft.scope(curr_pipetask="a"), service_keys=keys)
    assert profile.settings.attributes["queue"] == "007"
    assert profile.settings.attributes["accountingGroup"] == "1e3"
    assert profile.settings.service_settings == {
        "qos": "010",
        "features": ["1.10", "no"],
        "exclusive": False,
        "nodeCount": 2,
        "sbatch": ["--x=%s", "1_0"],
    }


def test_a_changed_spelling_is_a_change() -> None:
    text = "v: %s\nrequestMemory: %s\npipeline: {tasks: {a: {command: 'echo {v}'}}}\n"
    values = []
    for version, memory in (("1.10", "1_0"), ("1.1", "1_0"), ("'1.1'", "1_0")):
        Path("run.yaml").write_text(text % (version, memory), "utf-8")
        values.append(configuration_values(read_draft_without_code(Path("run.yaml"))))
    changes = [change.message for change in find_changed_values(values[0], values[1], same_version=True)]
    assert changes == ["'v' is '1.1' now, and was '1.10'"]
    assert [*find_changed_values(values[1], values[2], same_version=True)] == []


BPS = """
wmsServiceClass: lsst.ctrl.bps.htcondor.HTCondorService
computeSite: x
site: {x: {}}
includeConfigs: more.yaml
pipelineYaml: tasks.yaml
version: 1.10
old: 010
word: no
time: 1:30
quoted: '1.10'
requestMemory: 10
"""
TASKS = "dimensions: {v: [1.10, 010, 1.9]}\ntasks: {a: {dimensions: [v], command: 'echo {v}'}}\n"


def test_a_run_of_bps_keeps_the_values_of_bps_in_all_its_files_and_warns_once_of_each() -> None:
    Path("run.yaml").write_text(BPS, "utf-8")
    Path("more.yaml").write_text("count: 123_456\nproject: 0x1F\nmemory: 1_000 # a variable\n", "utf-8")
    Path("tasks.yaml").write_text(TASKS, "utf-8")
    draft = read_draft_without_code(Path("run.yaml"), Overrides(sets=("given=2.50",)))
    names = ("version", "old", "word", "time", "quoted", "count", "project", "given")
    assert [draft.text(name) for name in names] == ["1.1", "8", "False", "90", "1.10", "123456", "31", "2.5"]
    pipeline, _ = read_pipeline_file(draft, "pipelineYaml", FileIdentity())
    assert [task.data_id["v"] for task in pipeline.graph.dag.nodes] == [1.1, 1.9, 8]
    found = [each for each in lint_configuration(draft) if "as BPS reads it" in each.message]
    words = [each.message.partition(" ")[0].strip("'") for each in found]
    assert sorted(words) == sorted(["1.10", "010", "no", "1:30", "123_456", "0x1F", "1_000", "2.50", "1.10", "010"])
    assert len({(each.origin, each.message) for each in found}) == len(found)


def test_values_of_two_dimensions_are_grouped_by_their_texts() -> None:
    text = """
requestMemory: 10
pipeline:
  dimensions: {visit: [1, 2, 10], exposure: ["10", "2", "1"]}
  tasks:
    a: {dimensions: [visit], command: "echo {visit}"}
    b: {dimensions: [exposure], command: "echo {exposure}"}
"""
    cluster = "clusterAlgorithm: dimension_clustering\ncluster: {c: {pipetasks: 'a, b', dimensions: visit, %s}}\n"
    found = jobs_of(text + cluster % "equalDimensions: 'visit:exposure'")
    assert sorted((job.name, job.tasks) for job in found) == [("c_1", 2), ("c_10", 2), ("c_2", 2)]
    parted = jobs_of(
        text + "clusterAlgorithm: dimension_clustering\ncluster: {c: {pipetasks: b, partitionDimensions: exposure, "
        "partitionMaxSize: 2}, d: {pipetasks: a}}\n"
    )
    assert [job.command for job in parted if job.name == "c_002"] == ["echo 10"]
