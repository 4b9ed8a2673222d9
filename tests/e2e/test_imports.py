"""Pipelines that import others, wherever these lie; rings and missing files are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli

PAYLOAD = "payload: {payloadName: p}\n"
BASE = """\
parameters: {greeting: hello}
dimensions: {n: [1, 2]}
tasks:
  say: {dimensions: [n], command: "echo {greeting} {n} > {said}", outputs: {said: "{n}.txt"}}
  add: {command: "cat {said} > {sum}", inputs: [said], outputs: {sum: sum.txt}}
  extra: {command: "false"}
subsets: {main: [say, add]}
"""


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(f"{path.name}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def test_a_pipeline_is_what_it_imports_and_what_it_says_itself(cli: Cli, tmp_path: Path) -> None:
    write(
        tmp_path,
        run=PAYLOAD + "pipelineYaml: lib/top.yaml\n",
        lib__top="imports: [{location: middle.yaml}]\nparameters: {greeting: good day}\n",
        lib__middle="imports:\n- {location: '${PWD}/lib/base.yaml', exclude: [extra]}\n",
        lib__base=BASE,
    )
    ran = cli("submit", "run.yaml", "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "sum.txt").read_text("utf-8") == "good day 1\ngood day 2\n"
    inputs = Path(str(ran.json["submit_dir"]), "inputs")
    assert {path.name for path in inputs.iterdir()} == {"run.yaml", "top.yaml", "middle.yaml", "base.yaml"}


def test_a_pipeline_in_the_configuration_imports_too_and_can_be_changed_from_the_command_line(
    cli: Cli, tmp_path: Path
) -> None:
    write(tmp_path, run=PAYLOAD + "pipeline: {imports: {location: base.yaml, include: main}}\n", base=BASE)
    ran = cli("submit", "run.yaml", "--set", "pipeline.parameters.greeting='a b'", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "sum.txt").read_text("utf-8") == "a b 1\na b 2\n"


def test_a_part_of_what_is_imported(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, run=PAYLOAD + "pipelineYaml: top.yaml#main\n", top="imports: base.yaml\n", base=BASE)
    found = cli("acquire", "run.yaml")
    assert found.returncode == 0, found.stderr
    assert "3 tasks of 2 labels" in found.stdout


@pytest.mark.parametrize(
    ("texts", "status", "said"),
    [
        (
            {"top": "imports: a.yaml\n", "a": "imports:\n  - b.yaml\n", "b": "imports: [a.yaml]\n"},
            3,
            "b.yaml:1:11: pipelines import each other: 'a.yaml' -> 'b.yaml' -> 'a.yaml'",
        ),
        ({"top": "imports: top.yaml\n"}, 3, "top.yaml:1:10: pipelines import each other: 'top.yaml' -> 'top.yaml'"),
        (
            {"top": "tasks: {a: {command: x}}\nimports:\n- none.yaml\n"},
            7,
            "top.yaml:3:3: an import names the file 'none.yaml', which does not exist",
        ),
        (
            {"top": "imports: {location: base.yaml, include: [sya]}\n", "base": BASE},
            3,
            "top.yaml:1:42: the import of 'base.yaml' names the unknown subset or task 'sya'",
        ),
        (
            {"top": "imports: base.yaml\ntasks: {a: {command: x}}\n", "base": "tasks: {mine: {class: a.b.C}}\n"},
            3,
            "base.yaml:1:15: the task 'mine' names a class of LSST's, and 'a' a command: a pipeline has either",
        ),
        ({"top": "imports: base.yaml\n", "base": "parameters: {a: \n"}, 3, "base.yaml:2:1: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    cli: Cli, tmp_path: Path, texts: dict[str, str], status: int, said: str
) -> None:
    run = PAYLOAD + "wmsServiceClass: local\npipelineYaml: top.yaml\ncreateQuantumGraph: 'false'\n"
    write(tmp_path, run=run, **texts)
    ran = cli("acquire", "run.yaml")
    assert said in ran.stderr
    assert ran.returncode == status
