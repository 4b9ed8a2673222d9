"""Whatever signs names, paths and values have, a script is one for the shell and for sbatch, and says just these."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.services.scripts import RUN
from tests.services.slurm.scripts import directives, script

from longshore.contract.service import RunPaths
from longshore.errors import ConfigError
from longshore.services.batch.script import job_name
from longshore.services.batch.script_writer import ScriptWriter
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.script import output_pattern

NASTY = "\"'\\ #$`!*?[]{}()<>|&;%~=,:+-@éß中\t"
printable = st.characters(exclude_categories=["Cc", "Cs"]) | st.just("\t")
words = st.text(st.sampled_from(NASTY) | printable, min_size=1, max_size=30)
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


def pattern_means(pattern: str) -> str:
    """The path that Slurm makes of a pattern without a replacement (sbatch(1): filename pattern)."""
    if "\\" in pattern:
        return pattern.replace("\\\\", "\\")
    return pattern.replace("%%", "%")


@given(words, words, words)
@example(NASTY, NASTY, NASTY)
@example("50% \\ off", "#", "a 'b' \"c\"")
def test_values_and_paths_arrive(folder: str, partition: str, comment: str) -> None:
    run = RunPaths(Path("/data") / folder.replace("/", "_") / "run")
    options = directives(script({"partition": partition, "mailUser": comment}, run=run))
    assert f"--partition={partition}" in options
    assert f"--mail-user={comment}" in options
    assert f"--chdir={run.root}" in options
    (output,) = (option for option in options if option.startswith("--output="))
    assert pattern_means(output.removeprefix("--output=")) == f"{run.batches}/k7f3a-1-1.out"
    assert "--no-requeue" in options, "and no line has swallowed another"


@given(anything, anything)
def test_what_has_no_room_in_a_line_is_refused_by_name(folder: str, value: str) -> None:
    run = RunPaths(Path("/data") / folder.replace("/", "_") / "run")
    if any((ord(sign) < 32 and sign != "\t") or ord(sign) == 127 for sign in folder + value):
        with pytest.raises(ConfigError, match="no room"):
            script({"qos": value}, run=run)
        return
    options = directives(script({"qos": value}, run=run))
    assert f"--qos={value}" in options
    assert f"--chdir={run.root}" in options


@settings(max_examples=examples(40))
@given(words, words)
@example(NASTY, NASTY)
@example("\u2028", "0")
def test_the_shell_runs_just_the_wrapper(folder: str, value: str) -> None:
    run = RunPaths(Path("/data") / folder.replace("/", "_") / "run")
    text = script({"features": value, "directives": [f"--x={shlex.quote(value)}"]}, run=run, members=2)
    subprocess.run(["/bin/bash", "-n"], input=text, text=True, check=True)
    # The shell ends lines at LF alone; `str.splitlines` also knows U+2028 and others.
    last = text.rstrip("\n").rpartition("\n")[2].replace('"$((SLURM_ARRAY_TASK_ID + 1))"', "LINE")
    assert shlex.split(last) == [
        *("set", "--", "-m", "LINE", "-e", str(run.ends / "k7f3a-1-1"), str(run.batches / "k7f3a-1-1.tsv")),
        *("&&", ".", str(run.root / "wms" / "longshore-job")),
    ]


@given(st.text())
def test_names_of_jobs_are_plain_and_keep_the_tag(key: str) -> None:
    name = job_name("k7f3a-1-1", key, SlurmDialect({}).plain_name)
    assert name.endswith("k7f3a-1-1")
    assert len(name) <= 120
    assert name.isascii()
    assert not any(sign.isspace() for sign in name)


def test_long_names_stay_apart() -> None:
    names = {job_name("t", "x" * length, SlurmDialect({}).plain_name) for length in (200, 201)}
    assert len(names) == 2


def test_patterns_mean_paths() -> None:
    assert output_pattern("/a%j/b") == "/a%%j/b"
    assert output_pattern("/a%j\\b") == "/a%j\\\\b"


def test_heterogeneous_jobs_are_detected() -> None:
    writer = ScriptWriter(SlurmDialect({}), RUN, {"slurm": {"gres": "gpu:1"}}, "")
    assert writer.max_batch({"gres0": None}, 25) == 25
    assert writer.max_batch({"gres1": "gpu:1"}, 25) == 1, "Slurm accepts no arrays of heterogeneous jobs"


def test_raw_lines_hold_no_line_of_their_own() -> None:
    assert "--switches=1" in directives(script({"directives": ["-t 5\n--switches=1"]}))
    with pytest.raises(ConfigError, match="directives"):
        script({"sbatch": ["-t 5\x01"]})


def test_a_site_can_have_a_template_of_its_own() -> None:
    template = (
        "#!/bin/bash -l\n{% for line in job.lines %}\n#SBATCH {{ line }}\n{% endfor %}\nulimit -c 0\n{{ job.run }}\n"
    )
    lines = script(template=template).splitlines()
    assert lines[0] == "#!/bin/bash -l"
    assert lines[-2] == "ulimit -c 0"
    assert lines[-1].startswith("exec /bin/sh ")
    assert f"--chdir={RUN.root}" in directives("\n".join(lines))
