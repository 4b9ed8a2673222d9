"""The lint finds what a configuration's author should know, in order, and nothing in what is right."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.config.findings import PLAIN, SCHEMA, findings_of
from tests.depth import examples

from longshore.config.interpolate import Scope
from longshore.config.lint import add_intended_keys
from longshore.config.lint_variables import LintContext
from longshore.config.schema import Severity
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml
from longshore.errors import LongshoreError
from longshore.plan.configuration import explain_keys, read_draft
from longshore.plan.lint_file import lint_file

HERE = "wmsServiceClass: local\n"
PACKED = "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"


def said(text: str, around: LintContext = PLAIN, labels: frozenset[str] | None = None) -> list[str]:
    return [f"{each.severity}: {each.message}" for each in findings_of(HERE + text, around, labels)]


@pytest.mark.parametrize("value", ["shared", "{mode: shared}"])
@pytest.mark.parametrize(("site", "name"), [("", "NAME"), ("campus", "campus")])
def test_a_key_of_sites_among_options_has_a_way_out(value: str, site: str, name: str) -> None:
    (finding,) = findings_of(HERE + f"bps_cmdline: {{fileSystem: {value}}}", replace(PLAIN, site=site), None)
    assert finding.severity is Severity.WARNING
    assert finding.hint == f"It is a key of sites: write '--set site.{name}.fileSystem=VALUE'."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("requestMemroy: 5", "warning: nothing knows the key 'requestMemroy'"),
        ("mine: 5", "warning: nothing uses 'mine'"),
        ("requestCpus: two", "error: 'requestCpus' cannot be 'two'"),
        ("requestWalltime: '1:75'", "error: 'requestWalltime'"),
        (
            "pipetask: {isr: {requestMemoryMax: 1, requestMemory: 2}}",
            "warning: 'pipetask.isr.requestMemoryMax' is less",
        ),
        ("requestMemory: 4B", "warning: 'requestMemory' is 4 bytes, less than 1 MB"),
        ("pipetask: {isr: {requestDisk: 1 B}}", "warning: 'pipetask.isr.requestDisk' is 1 byte, less than 1 MB"),
        ("queue: 'q{nope}'", "warning: nothing defines the variable 'nope'"),
        ("runQuantumCommand: 'echo {nope}'", "warning: the command uses '{nope}', which nothing defines"),
        ("queue: '{queue}'", "error: a value is defined by itself"),
        ("queue: bpsEval(max)", "error: 'bpsEval(max)' fails"),
        ("queue: bpsEval(my.f, 1)", "note: 'bpsEval' calls 'my.f' when a run is prepared"),
        ("queue: 'a <b>'", "note: '<b>' stays as it is: no variable has the name 'b'"),
        ("queue: 'a $<B>'", "note: '$<B>' stays as it is: no environment variable has the name 'B'"),
        ("retryUnlessExit: [2]", "note: 'retryUnlessExit' has no effect: no exit code is retried"),
        (
            "numberOfRetries: 2\npipetask: {isr: {retryUnlessExit: 2, numberOfRetries: 0}}",
            "note: 'pipetask.isr.retryUnlessExit' has no effect",
        ),
        ("outputRun: x", "warning: 'outputRun' at the root has no effect"),
        ("outCollection: x", "error: 'outCollection' is deprecated"),
        ("executionButler: {whenCreate: NEVER}", "warning: 'executionButler' is a relic of BPS"),
        ("subdirTemplate: x", "warning: 'subdirTemplate' is read as 'subDirTemplate'"),
        ("gqraphFile: x", "warning: 'gqraphFile' is read as 'qgraphFile'"),
        ("pipetasks: {isr: {requestCpus: 2}}", "warning: 'pipetasks' is read as 'pipetask'"),
        ("finalJob: {concurrency_limit: x}", "warning: 'finalJob.concurrency_limit' is read as 'finalJob.concurrencyL"),
        ("environment: {DB_PASSWORD: hunter2}", "warning: the value of 'DB_PASSWORD' looks like a secret"),
        ("environment: {URL: 'https://ada:pw@host/x'}", "warning: the value of 'URL' looks like a secret"),
        ("site: {campus: {queue: x}}\ncomputeSite: canpus", "warning: 'site.campus' matches no 'computeSite'"),
    ],
)
def test_one_thing(text: str, message: str) -> None:
    (found,) = said(text)
    assert found.startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "mine: 5\nqueue: '{mine}'",
        "mine: 5\nqueue: '<mine>'",
        "mine: {any: [1]}\nqueue: '{.mine.any}'\ncurrent: {curr_site: x}",
        "mine: &mine {requestCpus: 2}\npipetask: {isr: *mine}",
        "subDirTemplate: '{label}/{no_dimension}'",
        "queue: 'cat ${HOME}/{{x}}'",
        "extraRunQuantumOptions: '{extraWhatOptions} {somePreCmdOpts} {wmsAttemptNum}'",
        "requestMemory: bpsEval(max, [1, 2])",
        "environment: {TOKEN: '${HOME}', PASSWORD_FILE: x, secretName: y}",
        PACKED + "cluster: {c: {pipetasks: 'a, b'}}",
        "cluster: {isr: {pipetasks: isr}}",
        "pipetask: {pipetaskInit: {queue: x}}",
        "site: {campus: {queue: x}, other: {queue: y}}\ncomputeSite: campus",
        "retryUnlessExit: null\nnumberOfRetries: 0\nmemoryMultiplier: 1",
        "retryUnlessExit: 2\nsite: {local: {numberOfRetries: 3}}",
        "retryUnlessExit: 2\nnumberOfRetries: '{tries}'\ntries: 0",
        "numberOfRetries: 0\npipetask: {isr: {retryUnlessExit: 2, numberOfRetries: 1}}",
    ],
)
def test_nothing_to_say(text: str) -> None:
    assert said(text) == []


def test_what_a_command_may_use_is_known_when_the_payload_is() -> None:
    known = LintContext(payload_names=frozenset({"visit"}), payload_uses=frozenset())
    assert said("runQuantumCommand: 'echo {visit}'", known) == []
    assert said("runQuantumCommand: 'echo {visti}'", known) == [
        "error: the command uses '{visti}', which nothing defines"
    ]


def test_sections_that_match_nothing() -> None:
    text = "pipetask: {isr: {queue: x}, isrr: {queue: y}}\ncluster: {c: {pipetasks: 'isr, call'}, d: {queue: x}}"
    found = findings_of(HERE + PACKED + text, labels=frozenset({"isr", "cal"}))
    assert [each.message for each in found] == [
        "'pipetask.isrr' matches nothing: no task has the label 'isrr'",
        "'cluster.c.pipetasks' matches nothing: no task has the label 'call'",
        "'cluster.d' matches nothing: it has no 'pipetasks', and no task has the label 'd'",
    ]
    assert [each.hint for each in found] == ["Did you mean 'isr'?", "Did you mean 'cal'?", "Labels are 'cal', 'isr'."]


def test_clusters_where_nothing_packs() -> None:
    """BPS's default makes a job of each quantum, and a section for others goes unread there without a word."""
    text = "cluster: {c: {pipetasks: 'isr, cal'}, isr: {pipetasks: isr, queue: x}, cal: {queue: y}, d: {queue: z}}"
    expected = [
        "warning: 'cluster.c.pipetasks' has no effect: 'clusterAlgorithm' does not go by it",
        "warning: 'cluster.d' matches nothing: it has no 'pipetasks', and no task has the label 'd'",
    ]
    assert said(text, labels=frozenset({"isr", "cal"})) == expected
    assert said(text) == expected[:1], "labels of a payload that nobody read may be any"
    single = "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.single_quantum_clustering\n"
    assert said(single + text) == expected[:1]
    assert said("payload: {" + PACKED.strip() + "}\n" + text) == []
    assert said(single + "payload: {" + PACKED.strip() + "}\n" + text) == []
    assert said("payload: {clusterAlgorithm: null}\n" + single + text) == expected[:1]


@pytest.mark.parametrize("algorithm", ["mine.single_quantum_clustering", "mine.packs", "'{algorithm}'", "5", "[x]"])
def test_an_algorithm_that_nobody_knows_is_taken_to_pack(algorithm: str) -> None:
    text = f"clusterAlgorithm: {algorithm}\nalgorithm: x\ncluster: {{c: {{pipetasks: 'isr, cal'}}}}"
    assert not [each for each in said(text, labels=frozenset({"isr", "cal"})) if "cluster.c" in each]


def test_sections_of_places_that_nobody_chose() -> None:
    """A file with all sites of a campaign is in order; one that is nearly what is chosen is not."""
    text = "site: {campus: {queue: x}, cloud9: {queue: y}}\ncloud: {east: {queue: z}, west: {queue: z}}\n"
    assert said(text) == []
    assert said(text + "computeSite: campus\ncomputeCloud: west") == []
    assert said(text + "computeSite: campus\ncomputeCloud: wets") == ["warning: 'cloud.west' matches no 'computeCloud'"]
    assert said(text + "pipetask: {isr: {computeSite: campsu}}") == ["warning: 'site.campus' matches no 'computeSite'"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("queue: '${LONGSHORE_NOPE}'", ["LONGSHORE_NOPE"]),
        ("queue: '$NOPE_A/$NOPE_B/${NOPE_A}'", ["NOPE_A", "NOPE_B"]),
        ("queue: '<ENV:NOPE>'", ["NOPE"]),
        ("submitPath: '${NOPE}/{outputRun}'", ["NOPE"]),
        ("site: {campus: {queue: $NOPE}}\ncomputeSite: campus", ["NOPE"]),
        ("site: {campus: {queue: $NOPE}}\ncluster: {isr: {computeSite: campus}}", ["NOPE"]),
        ("site: {campus: {queue: $NOPE}, other: {queue: x}}\ncomputeSite: other", []),
        ("customJob: {executable: $NOPE/x, arguments: '-i {i}', inputs: {i: $NOPE2}}", ["NOPE", "NOPE2"]),
        ("root: $NOPE\npayload: {butlerConfig: '{root}/repo'}", ["NOPE"]),
        ("root: $NOPE\nqueue: '<root>'", ["NOPE"]),
        ("pipetask: {isr: {root: $NOPE, queue: '{root}'}}", ["NOPE"]),
        # What a shell of the job's sees waits for it, and so does what only commands use.
        ("runQuantumCommand: 'echo $NOPE ${NOPE}'", []),
        ("runQuantumCommand: [sh, -c, 'for i in 1; do echo $i; done']", []),
        ("root: $NOPE\nrunQuantumCommand: 'ls {root}'", []),
        ("finalJob: {command1: 'echo $NOPE'}", []),
        ("preCmdline: 'for i in *; do echo $i; done'", []),
        ("queue: '$$ $(date) $<HOME> ${HOME} $HOME'", []),
        ("extraRunQuantumOptions: $NOPE", []),
        ("environment: {PATH: '${NOPE}:$HOME'}", []),
        ("pipetask: {isr: {environment: {A: $NOPE}}}", []),
    ],
)
def test_environment_variables_that_nothing_sets(text: str, names: list[str]) -> None:
    found = [each for each in findings_of(HERE + text) if each.message.startswith("the environment")]
    assert [each.message.split("'")[1] for each in found] == names
    assert all(each.severity is Severity.WARNING and each.origin.line for each in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bpsGenerateConfig: foo", "'foo' is no call of a function"),
        ("payload: {bpsGenerateConfig: 'f(x)'}", "the arguments of 'f(x)' are no literals"),
        ("requestCpus: 'bpsEval(max, [1'", "'bpsEval(max, [1' has no closing parenthesis"),
        ("queue: 'a bpsEval(nofn(, 1)'", "'bpsEval(nofn(, 1)' is no call of a function"),
    ],
)
def test_a_call_that_cannot_be_understood_is_an_error_where_it_stands(text: str, message: str) -> None:
    (found,) = [each for each in findings_of(HERE + text) if each.severity is Severity.ERROR]
    assert found.message == message
    assert found.origin.line == 2
    assert found.hint


def test_calls_for_more_configuration_are_in_order() -> None:
    text = "who: me\nbpsGenerateConfig: \"mine.settings('{who}', n=3)\"\nsite: {s: {bpsGenerateConfig: ''}}"
    assert said(text) == []


def test_bps_would_use_htcondor() -> None:
    text = "payload: {butlerConfig: r}\nnodeset: x\nprofile: {condor: {a: 1}}"
    (found,) = findings_of(text)
    assert found.message.startswith("no 'wmsServiceClass' is named: BPS would use HTCondor here")
    assert findings_of(HERE + text) == []


def test_misspelt_keys_are_read() -> None:
    root = add_intended_keys(parse_yaml("pipetasks: {isr: {requestCpus: 2, concurrency_limit: y}}\ngqraphFile: g", "f"))
    config = Config(root)
    current = {"curr_pipetask": "isr"}
    assert config.search("requestCpus", Scope(current=current)).value == 2
    assert config.search("concurrencyLimit", Scope(current=current)).value == "y"
    assert config.search("qgraphFile").value == "g"
    both = add_intended_keys(parse_yaml("pipetasks: {a: {queue: 1, x: 1}}\npipetask: {a: {queue: 2}}", "f"))
    assert Config(both).search(".pipetask.a.queue").value == 2
    assert Config(both).search(".pipetask.a.x").value == 1


BPS = "wmsServiceClass: lsst.ctrl.bps.htcondor.HTCondorService\ncomputeSite: x\nsite: {x: {}}\n"
WORDS = (
    "1:30",
    "010",
    "no",
    "Yes",
    "1e3",
    "1.10",
    "123_456",
    "0x1F",
    "0o10",
    "true",
    "10",
    "1.0e+3",
    "'no'",
    "2-03:00",
)


@pytest.mark.parametrize("text", WORDS)
def test_a_run_of_its_own_takes_texts_as_they_are(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(f"{HERE}project: {text}\nmine: {text}\n", "utf-8")
    assert [each.message for each in lint_file(path, now=0).findings if f"'{text}'" in each.message] == []


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("12:30:45", "'12:30:45' is 45045 here", 'Quote it if the text is meant: "12:30:45".'),
        ("1:30", "'1:30' is 90 here", 'Quote it if the text is meant: "1:30".'),
        ("010", "'010' is 8 here", 'Write 10 for the decimal number, 8 for this one, or quote it: "010".'),
        ("no", "'no' is false here", 'Write false, or quote it if the word is meant: "no".'),
        ("Yes", "'Yes' is true here", 'Write true, or quote it if the word is meant: "Yes".'),
        ("1.10", "'1.10' is 1.1 here", 'Quote it if the text is meant: "1.10".'),
        ("123_456", "'123_456' is 123456 here", 'Quote it if the text is meant: "123_456".'),
        ("2024-01-01T10:00:00Z", "'2024-01-01T10:00:00Z' is 2024-01-01 10:00:00+00:00 here", ANY),
        ("2024-01-01", "", ""),
        *((text, "", "") for text in ("1e3", "0o10", "true", "10", "0", "2-03:00:00", "0.5", "word", "'no'", '"010"')),
    ],
)
def test_a_run_of_bps_warns_once_where_its_value_is_not_the_text(
    tmp_path: Path, text: str, said: str, hint: str
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(f"{BPS}project: {text}\n", "utf-8")
    found = [(each.message, each.hint) for each in lint_file(path, now=0).findings if "as BPS reads it" in each.message]
    assert found == ([(f"{said}, as BPS reads it by YAML 1.1", hint)] if said else [])


@pytest.mark.parametrize(
    ("line", "warnings"),
    [
        ("requestWalltime: 1:30:00", 0),
        ("requestWalltime: 1:30", 1),
        ("requestMemory: 4_096", 0),
        ("requestMemory: 0100", 1),
        ("limitThreads: no", 0),
    ],
)
def test_a_run_of_bps_does_not_warn_where_text_and_value_are_one_amount(
    tmp_path: Path, line: str, warnings: int
) -> None:
    path = tmp_path / "f.yaml"
    for key in (line, f"pipetask: {{a: {{{line}}}}}"):
        path.write_text(f"{BPS}{key}\n", "utf-8")
        assert sum("as BPS reads it" in each.message for each in lint_file(path, now=0).findings) == warnings
        path.write_text(f"{HERE}{key}\n", "utf-8")
        assert [each for each in lint_file(path, now=0).findings if line.partition(": ")[0] in each.message] == []


def test_a_key_given_twice_is_an_error_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        f"{HERE}category: a\ncategory: b\nrequestCpus: two\npipeline: {{tasks: {{a: {{command: x}}}}}}\n", "utf-8"
    )
    found = lint_file(path, now=0).findings
    assert [(each.origin.line, each.message) for each in found] == [
        (3, "the key 'category' is given twice"),
        (4, "'requestCpus' cannot be 'two'"),
    ]


def test_what_cannot_be_read_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: [1\nb: 2\n", "utf-8")
    linted = lint_file(path, now=0)
    assert [each.origin.line for each in linted.findings] == [1]
    assert list(linted.sources) == [str(path)]
    assert lint_file(tmp_path / "none.yaml", now=0).findings[0].message.startswith("there is no file")


def test_a_line_with_a_secret_is_hidden_from_all_findings() -> None:
    found = findings_of(HERE + "password: hunter2")
    assert len(found) == 2
    assert all(each.hidden for each in found)
    assert not any("hunter2" in each.message + each.hint for each in found)


KEYS = st.sampled_from([*SCHEMA["$defs"]["job"]["properties"], *SCHEMA["properties"], "pipetasks", "x", "password"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("{}<>$ax1", max_size=6) | st.just("bpsEval(max)"),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(KEYS | st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
@example({"convertFrom": "bpsEval(max)"})
@settings(max_examples=examples(60))
def test_anything_is_linted_and_explained_or_refused_by_us(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(tree), "utf-8")
    for finding in lint_file(path, now=0).findings:
        assert len(finding.message) < 500
    with suppress(LongshoreError):
        configuration = read_draft(path, now=0)
        for key in ("x", *tree):
            with suppress(LongshoreError):
                explain_keys(configuration, [key], current={"curr_pipetask": "x"}, given=["a=1"])


def test_a_placeholder_of_another_system_is_an_error_at_its_command(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    tasks = "tasks: {align: {dimensions: [sample], command: 'bwa {wildcards.sample}'}}"
    path.write_text(f"{HERE}pipeline:\n  dimensions: {{sample: [A, B]}}\n  {tasks}\n", "utf-8")
    (found,) = [each for each in lint_file(path, now=0).findings if each.severity is Severity.ERROR]
    assert found.message == "the command of the task 'align' uses '{wildcards.sample}', which nothing replaces"
    assert found.hint.startswith("Did you mean '{sample}'?")
    assert (found.origin.line, found.origin.column) == (4, 55)


@pytest.mark.parametrize("text", ["runQuantumCommand: 'x {wmsOther}'", "environment: {A: 'x {wmsOther}'}"])
def test_nothing_replaces_other_names_of_a_workload_manager(text: str) -> None:
    (found,) = [each for each in findings_of(HERE + text) if each.severity is Severity.ERROR]
    assert "{wmsOther}" in found.message
    assert found.origin.line == 2
    assert found.hint == "There is '{wmsAttemptNum}' alone, the number of the attempt from 0."
    assert not [each for each in findings_of(f"{HERE}{text}\nwmsOther: 1") if each.severity is Severity.ERROR]
