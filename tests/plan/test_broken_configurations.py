"""Broken configurations are refused by `submit` and by `config lint`, with one message and place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tests.progress_notes import ProgressNotes

from longshore.config.schema import Severity
from longshore.errors import LongshoreError
from longshore.plan.lint_file import lint_file
from longshore.plan.submission import submit

TASKS: Final = "pipeline:\n  tasks:\n"
ONE: Final = f"{TASKS}    one: {{command: 'true'}}\n"
HEAD_N: Final = "pipeline:\n  dimensions: {n: [1]}"
BY_N: Final = "dimensions: [n]"

RING: Final = f"""{TASKS}    a: {{command: x, inputs: f, outputs: {{g: g}}}}
    b: {{command: x, inputs: g, outputs: {{f: f}}}}
"""

BROKEN: Final = [
    # Name, text, place and words of the refusal.
    ("an empty file", "", "run.yaml: no payload is named"),
    ("no payload", "requestMemory: 5\n", "run.yaml: no payload is named"),
    ("two payloads", f"{ONE}wfformat: g.json\n", "run.yaml:4:11: more than one payload is named"),
    ("a list at the top", "- a\n", "run.yaml:1:1: a configuration file must hold keys"),
    ("a colon in a text", "a: b: c\n", "run.yaml:1:5: this is not YAML"),
    ("a tab", "a:\n\tb: 1\n", "run.yaml:2:1: this is not YAML"),
    ("an alias of nothing", "a: *b\n", "run.yaml:1:4: this is not YAML"),
    ("a key given twice", f"{ONE}queue: a\nqueue: b\n", "run.yaml:5:1: the key 'queue' is given twice"),
    ("an include that is missing", "includeConfigs: nope.yaml\n", "run.yaml:1:17: the included file 'nope.yaml' does"),
    (
        "indentation",
        f"{ONE}   two: {{command: x}}\n",
        "run.yaml:4:4: this is not YAML: 'two' has 3 spaces before it, and 'one' in line 3 has 4",
    ),
    ("a bracket that is never closed", "a: [1, 2\n", "run.yaml:1:4: this is not YAML: the bracket '[' that opens here"),
    (
        "a word that is null",
        f"{TASKS}    one: {{command: [echo, ~]}}\n",
        "run.yaml:3:27: the command of the task 'one' must be text or a list of texts, not 'null'",
    ),
    ("a number that is a truth value", f"{ONE}requestCpus: yes\n", "run.yaml:4:14: 'requestCpus' must be"),
    (
        "a dataset that is not quoted",
        f"{TASKS}    one: {{command: [cat, {{out}}], outputs: {{out: x}}}}\n",
        "run.yaml:3:26: the command of the task 'one' must be text or a list of texts, not '{out}'",
    ),
    (
        "a path that is not quoted",
        f"{TASKS}    one: {{command: x, outputs: {{out: {{n}}}}}}\n",
        "run.yaml:3:38: the path of the dataset 'out' must be text, not '{n}'",
    ),
    ("no command", f"{TASKS}    one: {{outputs: {{a: a.txt}}}}\n", "run.yaml:3:10: the task 'one' has no 'command'"),
    ("an empty command", f"{TASKS}    one: {{command: ''}}\n", "run.yaml:3:20: the command of the task 'one' names no"),
    ("a command that is a map", f"{TASKS}    one: {{command: {{a: 1}}}}\n", "run.yaml:3:20: the command of the task"),
    (
        "an undefined variable of a line",
        f"{TASKS}    one: {{command: 'echo {{nope}}'}}\n",
        "run.yaml:3:20: the command uses '{nope}', which nothing defines",
    ),
    (
        "an undefined variable of a word",
        f"{TASKS}    one: {{command: [echo, '{{nope}}']}}\n",
        "run.yaml:3:27: the command uses '{nope}', which nothing defines",
    ),
    (
        "an undefined variable of a path",
        f"{TASKS}    one: {{command: 'true', outputs: {{a: '{{nope}}.txt'}}}}\n",
        "run.yaml:3:41: '{nope}.txt' uses '{nope}', which nothing defines",
    ),
    (
        "a dataset of another task",
        f"{TASKS}    one: {{command: 'echo {{b}}'}}\n    two: {{command: 'true', outputs: {{b: b.txt}}}}\n",
        "run.yaml:3:20: the command of the task 'one' uses '{b}', which is neither its input nor its output",
    ),
    (
        "a dimension of another task",
        f"{HEAD_N}\n  tasks:\n    one: {{command: 'echo {{n}}'}}\n    two: {{command: 'true', {BY_N}}}\n",
        "run.yaml:4:20: the command of the task 'one' uses '{n}', which is not one of its dimensions",
    ),
    (
        "a cycle by 'after'",
        f"{TASKS}    one: {{command: 'true', after: [two]}}\n    two: {{command: 'true', after: [one]}}\n",
        "run.yaml:4:10: the graph has a cycle",
    ),
    (
        "a cycle by files",
        RING,
        "run.yaml:4:8: the graph has a cycle",
    ),
    (
        "a task after itself",
        f"{TASKS}    one: {{command: 'true', after: [one]}}\n",
        "run.yaml:3:36: the task 'one' cannot come after itself",
    ),
    (
        "'tasks' misspelled",
        "pipeline:\n  taks:\n    one: {command: 'true'}\n",
        "run.yaml:2:3: a pipeline has no key 'taks'",
    ),
    (
        "'inputs' misspelled",
        f"{TASKS}    one: {{command: 'true', input: a}}\n",
        "run.yaml:3:28: the task 'one' has no key",
    ),
    (
        "'command' misspelled",
        f"{TASKS}    one: {{comand: 'true'}}\n",
        "run.yaml:3:11: the task 'one' has no key 'comand'",
    ),
    (
        "a placeholder of another system",
        f"{TASKS}    one:\n      command: |\n        true\n        cat {{input.bam}}\n",
        "run.yaml:6:13: the command of the task 'one' uses '{input.bam}'",
    ),
    (
        "a placeholder in a quoted word",
        f"{TASKS}    one: {{command: [cat, 'a{{input[0]}}']}}\n",
        "run.yaml:3:28: the command of the task 'one' uses '{input[0]}'",
    ),
    ("no tasks", "pipeline: {tasks: {}}\n", "run.yaml:1:11: the pipeline has no 'tasks'"),
    ("tasks as a list", "pipeline: {tasks: [one]}\n", "run.yaml:1:19: 'tasks' must be a map"),
    (
        "an unknown dataset",
        f"{TASKS}    one: {{command: 'true', inputs: [nope]}}\n",
        "run.yaml:3:37: 'inputs' of the task 'one' names the unknown dataset 'nope'",
    ),
    (
        "an unknown dimension",
        f"{TASKS}    one: {{command: 'true', dimensions: [nope]}}\n",
        "run.yaml:3:41: the task 'one' names the unknown dimension 'nope'",
    ),
    (
        "an unknown task",
        f"{TASKS}    one: {{command: 'true', after: [nope]}}\n",
        "run.yaml:3:36: 'after' of the task 'one' names the unknown task 'nope'",
    ),
    (
        "a dimension without values",
        "pipeline: {dimensions: {n: []}, tasks: {one: {command: 'true'}}}\n",
        "run.yaml:1:28: the dimension 'n' has no values",
    ),
    (
        "a value of a dimension that is null",
        f"pipeline: {{dimensions: {{n: [1, ~]}}, tasks: {{one: {{command: 'true', {BY_N}}}}}}}\n",
        "run.yaml:1:32: the dimension 'n' cannot have the value 'null'",
    ),
    (
        "a path without a dimension",
        f"pipeline: {{dimensions: {{n: [1, 2]}}, tasks: {{one: {{command: x, {BY_N}, outputs: {{a: a.txt}}}}}}}}\n",
        "run.yaml:1:93: the tasks 'one_1' and 'one_2' both write the file 'a.txt'",
    ),
    (
        "one path of two labels",
        f"{TASKS}    one: {{command: 'true', outputs: {{a: x}}}}\n    two: {{command: 'true', outputs: {{b: x}}}}\n",
        "run.yaml:4:41: the tasks 'one' and 'two' both write the file 'x'",
    ),
    ("a query of an unknown name", f"dataQuery: nope = 1\n{ONE}", "run.yaml:1:12: unknown dimension 'nope'"),
    (
        "a query that leaves nothing",
        f"dataQuery: n = 3\npipeline: {{dimensions: {{n: [1, 2]}}, tasks: {{one: {{command: 'true', {BY_N}}}}}}}\n",
        "run.yaml:1:12: the query leaves nothing",
    ),
    (
        "too many tasks",
        f"maxTasks: 3\npipeline: {{dimensions: {{n: {{range: [1, 9]}}}}, tasks: {{one: {{command: x, {BY_N}}}}}}}\n",
        "run.yaml:2:59: the task 'one' by n: 9 combinations, more than the limit of 3",
    ),
    ("an unknown subset", "pipelineYaml: p.yaml#nope\n", "run.yaml:1:15: the payload names the unknown subset or task"),
    ("an unknown service", f"{ONE}wmsServiceClass: slrum\n", "run.yaml:4:18: there is no service 'slrum'"),
    ("a service without a site", f"{ONE}wmsServiceClass: slurm\n", "run.yaml:4:18: 'computeSite' must name the site"),
    ("an unknown site", f"{ONE}computeSite: nowhere\n", "run.yaml:4:14: there is no site 'nowhere'"),
    (
        "an unknown site of a label",
        f"{ONE}pipetask: {{one: {{computeSite: nowhere}}}}\n",
        "run.yaml:4:31: there is no site 'nowhere'",
    ),
    ("an amount that is none", f"{ONE}requestMemory: lots\n", "run.yaml:4:16: 'requestMemory' cannot be 'lots'"),
    ("no processors", f"{ONE}requestCpus: 0\n", "run.yaml:4:14: 'requestCpus' must be at least 1"),
    (
        "a value of a label",
        f"{ONE}pipetask: {{one: {{requestWalltime: soon}}}}\n",
        "run.yaml:4:35: 'pipetask.one.requestWalltime' cannot be 'soon'",
    ),
    (
        "a variable that is defined by itself",
        f"{TASKS}    one: {{command: 'echo {{a}}'}}\na: '{{b}}'\nb: '{{a}}'\n",
        "run.yaml:4:4: a value is defined by itself: 'a' -> 'b' -> 'a'",
    ),
    (
        "an unknown clustering",
        f"{ONE}clusterAlgorithm: nope\n",
        "run.yaml:4:19: there is no clustering algorithm 'nope'",
    ),
    ("an empty directory", f"{ONE}submitPath: ''\n", "run.yaml:4:13: 'submitPath' must have a value"),
    (
        "a final job on no condition",
        f"{ONE}finalJob: {{whenRun: SOMETIMES, command1: 'true'}}\n",
        "run.yaml:4:21: 'finalJob.whenRun' must be one of",
    ),
    (
        "an undefined variable of the final job",
        f"{ONE}finalJob: {{whenRun: ALWAYS, command1: 'echo {{nope}}'}}\n",
        "run.yaml:4:39: the command uses '{nope}', which nothing defines",
    ),
    (
        "an ordering of nothing",
        f"{ONE}ordering: {{group: {{labels: one}}}}\n",
        "run.yaml:4:19: 'ordering.group' says no dimensions",
    ),
]

DEPENDS: Final = [
    # What depends on files or the machine: name, text, and words of the refusal.
    (
        "a program that is missing",
        f"{TASKS}    one: {{command: 'no-such-program x'}}\n",
        "job 'one' runs 'no-such-program', which is not on the PATH",
    ),
    (
        "an input that is missing",
        f"{TASKS}    one: {{command: 'true', inputs: {{a: nope.txt}}}}\n",
        "'nope.txt' does not exist; 'one' reads it",
    ),
    ("a payload that is missing", "pipelineYaml: nope.yaml\n", "names the file 'nope.yaml', which"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file for one of the configurations."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("tasks: {one: {command: 'true'}}\n", "utf-8")
    return tmp_path


def refusal_of(text: str) -> LongshoreError:
    """The error of a submission, which must leave nothing behind."""
    path = Path("run.yaml")
    path.write_text(text, "utf-8")
    with pytest.raises(LongshoreError) as refused:
        submit(path, progress=ProgressNotes())
    assert sorted(each.name for each in Path().iterdir()) == ["p.yaml", "run.yaml"]
    return refused.value


@pytest.mark.parametrize(("name", "text", "words"), BROKEN, ids=[each[0] for each in BROKEN])
def test_submit_and_lint_refuse_with_one_message_and_place(name: str, text: str, words: str) -> None:
    error = refusal_of(text)
    message, _, others = error.message.partition(" (and ")
    assert f"{error.origin}: {message}".startswith(words), name
    found = [each for each in lint_file(Path("run.yaml")).findings if each.severity is Severity.ERROR]
    assert (message, error.origin) in [(each.message, each.origin) for each in found]
    assert others or len(found) == 1, "a fault is told once"


def test_all_placeholders_of_another_system_are_told_each_at_its_place() -> None:
    command = "{input.a} ${n} {output[0]} {input.a}"
    error = refusal_of(f"{HEAD_N}\n  tasks:\n    one: {{command: 'cat {command}', {BY_N}}}\n")
    assert error.message.endswith(" (and 2 more)")
    assert [str(each.origin) for each in error.details] == ["run.yaml:4:25", "run.yaml:4:35", "run.yaml:4:40"]
    found = lint_file(Path("run.yaml")).findings
    assert [(each.message, each.origin) for each in found] == [(each.message, each.origin) for each in error.details]


def test_a_key_in_an_imported_pipeline_is_told_at_its_place(folder: Path) -> None:
    (folder / "p.yaml").write_text("tasks:\n  one:\n    comand: 'true'\n", "utf-8")
    assert str(refusal_of("pipelineYaml: p.yaml\n").origin).endswith("p.yaml:3:5")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"{TASKS}    one: {{command: [echo, ~]}}\n", 'Give it a value; an empty text is written "".'),
        (f"{TASKS}    one: {{command: [echo, {{a}}], inputs: {{a: x}}}}\n", "Quote it: '{a}'."),
        (f"{TASKS}    one: {{command: x, outputs: {{a: {{n}}}}}}\n", "Quote it: '{n}'."),
        ("pipeline:\n  taks:\n    one: {command: x}\n", "Did you mean 'tasks'?"),
        (f"{ONE}requestMemory: Yes\n", 'Quote it if the word is meant: "Yes".'),
    ],
)
def test_the_way_out_names_what_was_written(text: str, hint: str) -> None:
    assert hint in refusal_of(text).hint


@pytest.mark.parametrize(("name", "text", "words"), DEPENDS, ids=[each[0] for each in DEPENDS])
def test_lint_finds_what_this_machine_lacks(name: str, text: str, words: str) -> None:
    error = refusal_of(text)
    assert words in error.message, name
    linted = lint_file(Path("run.yaml"))
    (finding,) = [each for each in linted.findings if words in each.message]
    assert (finding.severity, finding.origin) == (Severity.ERROR, error.origin)
    assert linted.exit_status() == error.exit_status
