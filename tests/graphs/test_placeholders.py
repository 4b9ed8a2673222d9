"""A command with a placeholder of another system is refused with the right spelling; shell and awk stay legal."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from longshore.config.merge import to_node
from longshore.errors import ConfigError, Origin
from longshore.graphs.pipeline import Pipeline, PipelineSettings, read_pipeline
from longshore.graphs.placeholders import CommandContext
from longshore.graphs.tables import parse_csv

SHEET = parse_csv("sample,fastq_1\nA,a/1.fq\nB,b/1.fq\n", Origin("sheet.csv"))


def read(command: Any, **settings: Any) -> Pipeline:
    task = {
        "dimensions": ["sample", "lane"],
        "inputs": {"fastq": "in/{sample}.fq", "index": "ref.idx"},
        "outputs": {"bam": "out/{sample}_{lane}.bam"},
        "command": command,
    }
    dimensions = {"sample": {"table": "sheet.csv"}, "lane": [1, 2], "other": [5]}
    node = to_node({"dimensions": dimensions, "tasks": {"align": task}}, Origin("p.yaml", 7, 9))
    return read_pipeline(node, {"sheet.csv": SHEET}, PipelineSettings(**settings))


@pytest.mark.parametrize(
    ("command", "written", "guess"),
    [
        ("bwa {wildcards.sample}", "{wildcards.sample}", "Did you mean '{sample}'?"),
        ("bwa {wildcards[sample]}", "{wildcards[sample]}", "Did you mean '{sample}'?"),
        ("bwa {input.fastq} > x", "{input.fastq}", "Did you mean '{fastq}'?"),
        ("bwa {input[1]}", "{input[1]}", "Did you mean '{index}'?"),
        ("bwa > {output[0]}", "{output[0]}", "Did you mean '{bam}'?"),
        ("bwa > {output.any}", "{output.any}", "Did you mean '{bam}'?"),
        ("bwa -t {resources.cpus}", "{resources.cpus}", "Did you mean '$LONGSHORE_JOB_CPUS'?"),
        ("bwa {lane.x}", "{lane.x}", "Did you mean '{lane}'?"),
        ("bwa {sampel.fastq}", "{sampel.fastq}", "Did you mean '{fastq}'?"),
        ("bwa {a.b:03}", "{a.b:03}", "The task has '{sample}', '{lane}', '{fastq}', '{index}', '{bam}'."),
        (["bwa", "{a[0]}"], "{a[0]}", "The task has '{sample}', '{lane}', '{fastq}', '{index}', '{bam}'."),
        ("bwa ${sample}", "${sample}", "Did you mean '{sample}'?"),
        ("bwa ${bam} x", "${bam}", "Did you mean '{bam}'?"),
        ("sampler=1; bwa ${sample}", "${sample}", "Did you mean '{sample}'?"),
        ("cat $fastq {index} | wc", "$fastq", "Did you mean '{fastq}'?"),
        ('echo "$sample" > {bam}', "$sample", "Did you mean '{sample}'?"),
        ("cp x_$sample.txt {bam}", "$sample", "Did you mean '{sample}'?"),
        ("bash -o pipefail -c 'cat $fastq | wc'", "$fastq", "Did you mean '{fastq}'?"),
        (["bash", "-c", "cat $fastq | wc"], "$fastq", "Did you mean '{fastq}'?"),
        ("[ $sample = A ] || true", "$sample", "Did you mean '{sample}'?"),
        ("bwa !{fastq} > {bam}", "!{fastq}", "Did you mean '{fastq}'?"),
    ],
)
def test_a_foreign_placeholder_is_an_error_with_the_right_spelling(command: Any, written: str, guess: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(command)
    assert caught.value.message.startswith(f"the command of the task 'align' uses '{written}', ")
    assert caught.value.hint.startswith(guess)
    assert str(caught.value.origin) == "p.yaml:7:9"


@pytest.mark.parametrize(
    "command",
    [
        "awk '{print $1}' {fastq}",
        "awk '!seen[$0]++ {n[NR]=$1} END {for (i in n) {print n[i]}}' {fastq}",
        "awk '{n[NR]}' {fastq}",
        "x=a.b; echo ${x%.*} ${x##*/} ${#x} ${x:-y} $x $$ $1",
        "for sample in 1 2; do echo ${sample}; done",
        "sample=$(basename {fastq}); echo ${sample}",
        "echo x | while IFS=, read -r lane sample; do echo ${sample}; done",
        "export bam=1; echo ${bam}",
        "printf -v sample %s x; echo ${sample}",
        "echo ${sample:=x} ${sample}",
        "sample=A; for lane in 1 2; do echo $sample $lane; done",
        "echo x | while read -r fastq; do echo $fastq $bamboo; done",
        "awk -F, '{sample = NF; bam++; print $sample, $bam}' {fastq}",
        "awk -v lane=3 '{print $lane}' {fastq}",
        "perl -ne 'my ($sample, $lane) = split; $bam .= $sample; print $lane, $bam' {fastq}",
        "Rscript -e 't <- read.csv(commandArgs(T)[1]); print(t$sample); print(t[[1]]$lane)' {fastq}",
        "jq --arg sample {sample} '.[$sample] as $lane | $lane' {fastq}",
        ["awk", "{sample = 1; print $sample}", "{fastq}"],
        ["jq", "--arg", "lane", "1", ".[$lane]", "{fastq}"],
        r'echo "\$sample"',
        'echo done!{sample} "!"{lane} {{!{lane}}}',
        "echo {{wildcards.sample}} {{a[0]}} $${{sample}}",
        "jq '{a: .b}' {fastq} | python -c 'print({1: 2}[1])'",
        "find . -exec ls {} +; echo {1..3} {a,b}.txt",
        "echo {sample.fastq_1} {sample} {lane:03}",
    ],
)
def test_shell_and_scripts_stay_legal(command: Any) -> None:
    assert len(read(command).graph.dag) == 4


def test_a_variable_of_the_environment_of_jobs_is_legal() -> None:
    for command in ("bwa ${sample}", "bwa $sample"):
        assert len(read(command, context=CommandContext(shell_variables=frozenset({"sample"}))).graph.dag) == 4
    with pytest.raises(ConfigError, match="nothing sets"):
        read("bwa ${sample}", context=CommandContext(shell_variables=frozenset({"lane"})))


@given(st.text(string.ascii_letters + string.digits + " $;|&<>()'\"/-_=*?#%:\n" + ".,", max_size=40))
def test_a_command_without_names_of_the_pipeline_is_never_refused(text: str) -> None:
    assume(not re.search(r"\$(sample|lane|other|fastq|index|bam)", text))
    assert len(read("run " + text).graph.dag) == 4


@given(st.text("{}$ab.[]0 ;'", max_size=16))
def test_doubled_braces_escape_whatever_stands_in_them(text: str) -> None:
    inner = text.translate(str.maketrans("", "", "{}"))
    assert len(read(f"run '{{{{{inner}}}}}'").graph.dag) == 4


NAMES = st.from_regex(r"[A-Za-z_]\w{0,4}", fullmatch=True).filter(str.isascii)


@given(NAMES, NAMES, st.sampled_from(["{%s.%s}", "{%s[0].%s}", "x{%s.%s:>4}y"]))
def test_a_dotted_name_is_refused_unless_it_is_a_column(base: str, key: str, form: str) -> None:
    if (base, key) in {("sample", "fastq_1"), ("sample", "sample")}:
        return
    with pytest.raises(ConfigError, match="uses"):
        read("run " + form % (base, key))


def test_a_column_that_the_table_lacks_is_an_error_with_its_columns() -> None:
    with pytest.raises(ConfigError) as caught:
        read("bwa {sample.fatq_1}")
    assert caught.value.message.endswith("uses '{sample.fatq_1}', but 'sheet.csv' has no column 'fatq_1'")
    assert caught.value.hint == "Did you mean 'fastq_1'?"
