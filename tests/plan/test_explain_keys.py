"""`config explain` knows every key of the schema, also with the sections that lead to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.cli.config import explain_text
from longshore.config.explain import KeyExplanation
from longshore.errors import UsageError
from longshore.plan.configuration import explain_keys, read_draft
from longshore.plan.lint import explain_values

PIPELINE = "pipeline: {tasks: {count: {command: 'true'}}}\n"
FINAL = "finalJob: {command: 'cat table.tsv'}\n"


def explain(folder: Path, text: str, key: str) -> KeyExplanation:
    path = folder / "run.yaml"
    path.write_text(text, "utf-8")
    return explain_keys(read_draft(path, now=0), [key], current={}, given=())[key]


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        (PIPELINE + FINAL, "finalJob.whenRun", 'finalJob.whenRun: not set; by default "ALWAYS"'),
        (PIPELINE + FINAL, ".finalJob.whenRun", '.finalJob.whenRun: not set; by default "ALWAYS"'),
        (PIPELINE, "finalJob.whenRun", 'finalJob.whenRun: not set; by default "NEVER"'),
        (PIPELINE, "pipetask.count.requestMemory", "pipetask.count.requestMemory: not set"),
        (PIPELINE, "memoryLimit", "memoryLimit: not set"),
    ],
)
def test_a_key_that_nothing_sets_is_known(tmp_path: Path, text: str, key: str, told: str) -> None:
    explained = explain(tmp_path, text, key)
    assert (explained.is_found, explained.error) == (False, None)
    assert explain_text({key: explained}) == told


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("finalJob.whenrun", "Did you mean 'finalJob.whenRun'?"),
        ("pipetask.count.requestMemry", "Did you mean 'pipetask.count.requestMemory'?"),
        ("requestMemry", "Did you mean 'requestMemory'?"),
        ("finalJob.qqq", "'finalJob' has whenRun, "),
        ("qqq", "All keys: longshore config schema"),
        ("qqq.whenRun", "All keys: longshore config schema"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_way_out(tmp_path: Path, key: str, hint: str) -> None:
    explained = explain(tmp_path, PIPELINE + FINAL, key)
    assert explained.error is not None
    assert explained.error.message == f"nothing defines '{key}', and Longshore has no key of that name"
    assert explained.error.hint.startswith(hint)


AT_SITE = """computeSite: local
site: {far: {requestMemory: 128}}
pipeline: {tasks: {coadd: {command: 'true'}, other: {command: 'true'}}}
pipetask: {coadd: {computeSite: far}}
"""


@pytest.mark.parametrize(
    ("current", "memory"),
    [
        ({"curr_pipetask": "coadd"}, 128),
        ({"curr_pipetask": "other"}, 2048),
        ({"curr_pipetask": "coadd", "curr_site": "local"}, 2048),
        ({}, 2048),
        ({"curr_site": "far"}, 128),
    ],
)
def test_a_label_is_explained_at_the_site_of_its_jobs(tmp_path: Path, current: dict[str, str], memory: int) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(AT_SITE, "utf-8")
    keys = ["requestMemory"]
    assert explain_keys(read_draft(path, now=0), keys, current=current, given=())[keys[0]].value == memory
    path.write_text(AT_SITE.replace("computeSite: local", "computeSite: far"), "utf-8")
    memory = 128 if "curr_site" not in current else memory
    assert explain_keys(read_draft(path, now=0), keys, current=current, given=())[keys[0]].value == memory


def test_a_key_that_fails_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"{PIPELINE}finalJob: {{whenRun: SUCESS, command: 'true'}}\n", "utf-8")
    keys = ["finalJob.whenRun", "requestMemory"]
    explained = explain_keys(read_draft(path, now=0), keys, current={}, given=())
    assert explained["finalJob.whenRun"].error is not None
    assert "must be ALWAYS, SUCCESS, NEVER, not 'SUCESS'" in explained["finalJob.whenRun"].error.message
    assert explained["requestMemory"].value == 2048


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("finalJob.whenRun", "SUCCESS", 2),
        ("finalJob.command", "cat table.tsv", 2),
        (".finalJob.whenRun", "SUCCESS", 2),
        ("payload.payloadName", "cohort", 3),
        ("pipetask.count.numberOfRetries", 2, 4),
        ("pipeline.tasks.count.command", "true", 1),
    ],
)
def test_a_key_with_its_sections_has_its_value_and_origin(tmp_path: Path, key: str, value: object, line: int) -> None:
    text = PIPELINE + "finalJob: {whenRun: SUCCESS, command: 'cat table.tsv'}\n"
    text += "payload: {payloadName: cohort}\npipetask: {count: {numberOfRetries: 2}}\n"
    explained = explain(tmp_path, text, key)
    assert (explained.is_found, explained.value) == (True, value)
    assert explained.origin is not None
    assert explained.origin.line == line


def test_a_label_that_no_task_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(PIPELINE + "cluster: {night: {pipetasks: count}}\n", "utf-8")
    configuration = read_draft(path, now=0)
    with pytest.raises(UsageError, match="no task has the label 'cuont'") as caught:
        explain_values(configuration, ["requestMemory"], current={"curr_pipetask": "cuont"})
    assert caught.value.hint == "Did you mean 'count'?"
    for label in ("count", "night", "finalJob", "pipetaskInit"):
        (found,) = explain_values(configuration, ["requestMemory"], current={"curr_pipetask": label}).values()
        assert found.value == 2048
    path.write_text("graphFile: tasks.jsonl\n", "utf-8")
    assert explain_values(read_draft(path, now=0), ["requestMemory"], current={"curr_pipetask": "cuont"})


def test_values_of_a_run_and_of_a_label_are_those_of_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        'payload: {outputRun: u/me/run}\nqgraphFileTemplate: "{uniqProcName}.qg"\ncategory: "{label}_{jobLabel}"\n',
        "utf-8",
    )
    draft = read_draft(path, now=0)
    keys = ["qgraphFileTemplate", "uniqProcName", "category"]
    found = explain_keys(draft, keys, current={"curr_pipetask": "isr", "curr_cluster": "all"}, given=())
    assert [found[key].value for key in keys] == ["u_me_run.qg", "u_me_run", "isr_all"]
    assert explain_keys(draft, ["category"], current={}, given=())["category"].value == "_"


def test_an_output_run_that_cannot_be_evaluated_hides_no_other_key(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text('payload: {outputRun: "{outputRun}"}\nqueue: long\n', "utf-8")
    found = explain_keys(read_draft(path, now=0), ["queue", "outputRun"], current={}, given=())
    assert found["queue"].value == "long"
    assert found["outputRun"].error is not None
