"""The JSON documents of commands: each is what its schema says, whatever the records hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.explain import InterpolationStep, KeyExplanation, OverriddenValue, StepKind
from longshore.config.merge import to_node
from longshore.config.plugins import shipped_path
from longshore.config.schema import Finding, Severity
from longshore.contract.service import Intervention, JobSelection, PingReport, RestartChanges, RunPaths
from longshore.control.adopt import AdoptResult, ForgottenRun
from longshore.control.documents import adopt_document, forget_document, restart_document
from longshore.control.restart import RestartPlan
from longshore.errors import (
    CodeRefusedError,
    ConfigError,
    CycleError,
    ErrorDetail,
    GraphCommandError,
    LongshoreError,
    Origin,
    RunNotMeantError,
)
from longshore.model.report import (
    Badput,
    Drawing,
    DrawingEdge,
    DrawingNode,
    ExitCodes,
    Failure,
    JobFailure,
    JobReport,
    LabelSummary,
    Removals,
    RemovedJob,
    Retries,
    RunningJob,
    RunReport,
    RunSummary,
)
from longshore.model.states import Cause, JobState
from longshore.model.submission import RunIdentity
from longshore.plan.lint import LintResult
from longshore.plan.stages import Stage, StageResult
from longshore.reports.documents.configuration import config_show_document, explain_document, lint_document
from longshore.reports.documents.document import error_document, to_json
from longshore.reports.documents.job import draw_document
from longshore.reports.documents.report import JobEntry, report_document, report_pieces
from longshore.reports.documents.run import (
    CountsEntry,
    cancel_document,
    resume_all_document,
    resume_document,
    stages_document,
    status_document,
    steer_document,
    submit_document,
)
from longshore.reports.documents.site import PingDocument, site_profile_document, sites_document
from longshore.runstate.open_run import OpenRun
from longshore.runstate.restart_selection import RestartReason
from longshore.sites.profile_files import SiteFolderKind
from longshore.sites.select import UndefinedNameError
from longshore.sites.site import KnownSite, SiteDescription

INPUTS = {"config", "site", "graph_file"}
"""Schemas of what people write; all others are of what we print."""
KINDS = sorted({path.stem for path in shipped_path("etc", "schema").glob("*.json")} - INPUTS)
SCHEMAS: Mapping[str, Any] = {
    kind: json.loads(shipped_path("etc", "schema", f"{kind}.json").read_text("utf-8")) for kind in KINDS
}
NOON = 1763640000.1239
INSIGHT = {
    *("elapsed_s", "left_s", "hopeless_jobs", "longest_running", "waits", "digest", "badput", "exit_codes"),
    *("last_failures", "retries", "removals", "label_summaries"),
}
"""Members of a run that was asked for by itself."""


def read(document: object) -> Any:
    """What a program reads of a document."""
    return json.loads(to_json(document))


def check(kind: str, document: object) -> Any:
    """Hold what a program reads to the schema, and return it."""
    validator = jsonschema.Draft202012Validator(
        SCHEMAS[kind], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    shown = read(document)
    validator.validate(shown)
    return shown


odd_text = st.text(st.characters(exclude_categories=[]), max_size=12)
times = st.none() | st.floats(allow_nan=False, allow_infinity=False)
amounts = st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False)
counts = st.dictionaries(st.sampled_from(JobState), st.integers(0, 10**9))
jobs = st.builds(
    JobReport,
    name=odd_text,
    label=odd_text,
    state=st.sampled_from(JobState),
    cause=st.none() | st.sampled_from(Cause),
    reason=st.none() | odd_text,
    attempts=st.integers(0, 2**62),
    exit_code=st.none() | st.integers(-(2**31), 2**32),
    signal=st.none() | st.integers(1, 64),
    host=st.none() | odd_text,
    started_at=times,
    finished_at=times,
    run_s=amounts,
    cpu_s=amounts,
    peak_memory_b=st.none() | st.integers(0, 2**62),
    log=st.none() | odd_text,
)


failures = st.builds(
    Failure,
    label=odd_text,
    cause=st.none() | st.sampled_from(Cause),
    exit_code=st.none() | st.integers(-(2**31), 2**32),
    signal=st.none() | st.integers(1, 64),
    message=odd_text,
    count=st.integers(1, 10**6),
    unread=st.integers(0, 10**6),
    job=odd_text,
    host=st.none() | odd_text,
    attempt=st.integers(0, 99),
    reason=st.none() | odd_text,
    log=st.none() | odd_text,
    tail=st.lists(odd_text, max_size=2).map(tuple),
    by_hand=st.none() | odd_text,
)
job_failures = st.lists(
    st.builds(JobFailure, name=odd_text, label=odd_text, reason=st.none() | odd_text, ended_at=times, message=odd_text),
    max_size=2,
).map(tuple)
finite = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
insights = st.builds(
    RunSummary,
    elapsed_s=amounts,
    left_s=st.none() | st.tuples(finite, finite),
    hopeless_jobs=st.integers(0, 9),
    running=st.lists(
        st.builds(RunningJob, name=odd_text, label=odd_text, host=st.none() | odd_text, started_at=times),
        max_size=2,
    ).map(tuple),
    waits=st.lists(odd_text, max_size=2).map(tuple),
    last_failures=job_failures,
    retries=st.builds(Retries, jobs=st.integers(0, 10**6), newest=job_failures),
    removals=st.builds(
        Removals,
        jobs=st.integers(0, 10**6),
        newest=st.lists(st.builds(RemovedJob, name=odd_text, label=odd_text, reason=odd_text), max_size=2).map(tuple),
    ),
    labels=st.dictionaries(
        odd_text,
        st.builds(LabelSummary, median_s=st.none() | finite, peak_memory_b=st.none() | st.integers(0, 2**60)),
        max_size=2,
    ),
    failures=st.lists(failures, max_size=2).map(tuple),
    badput=st.dictionaries(
        st.sampled_from(Cause),
        st.builds(
            Badput,
            attempts=st.integers(1, 99),
            seconds=finite,
            exit_codes=st.dictionaries(st.integers(1, 255), st.integers(1, 9), max_size=2),
            signals=st.dictionaries(st.integers(1, 64), st.integers(1, 9), max_size=2),
        ),
        max_size=2,
    ),
    exit_codes=st.dictionaries(
        odd_text,
        st.builds(ExitCodes, codes=st.dictionaries(st.integers(-1, 256), st.integers(1, 9)), unknown=st.integers(0, 9)),
        max_size=2,
    ),
)


def reports_of(labels: Mapping[str, Mapping[JobState, int]]) -> st.SearchStrategy[RunReport]:
    """Runs whose counts add up; a state that no job is in may be missing, as it may in life."""
    total = {state: sum(label.get(state, 0) for label in labels.values()) for state in JobState}
    return st.builds(
        RunReport,
        **dict.fromkeys(("id", "name", "path", "service", "operator", "project", "campaign"), odd_text),
        **dict.fromkeys(("payload", "site", "user"), odd_text),
        **dict.fromkeys(("submitted_at", "started_at", "finished_at"), times),
        state=st.sampled_from(JobState),
        expected=st.just(sum(total.values())),
        counts=st.just({state: count for state, count in total.items() if count}),
        labels=st.just(labels),
        notes=st.lists(odd_text, max_size=2).map(tuple),
        jobs=st.none() | st.lists(jobs, max_size=3).map(tuple),
    )


reports = st.dictionaries(odd_text, counts, max_size=3).flatmap(reports_of)


def run(**more: Any) -> RunReport:
    plain: dict[str, Any] = {
        "id": "k7f3a",
        "name": "u_ada_run",
        "path": "/data/submit/run",
        "service": "local",
        "state": JobState.FAILED,
        "expected": 3,
        "counts": {JobState.SUCCEEDED: 1, JobState.FAILED: 1, JobState.PRUNED: 1},
        "labels": {"isr": {JobState.SUCCEEDED: 1, JobState.FAILED: 1}, "calibrate": {JobState.PRUNED: 1}},
    }
    return RunReport(**{**plain, **more})


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_schemas(kind: str) -> None:
    schema = SCHEMAS[kind]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:longshore:schema:{kind}"
    assert schema["additionalProperties"] is True


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every part of a schema that describes an object by its members."""
    if isinstance(schema, dict):
        if "required" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_explain_every_member(kind: str) -> None:
    for described in objects(SCHEMAS[kind]):
        assert described["title"]
        assert described["description"]
        assert set(described["required"]) <= set(described["properties"])
        if described["title"] != "Counts":
            assert all(member["description"] for member in described["properties"].values())


def test_counts_have_every_state_in_order() -> None:
    assert CountsEntry.__struct_fields__ == tuple(JobState)


def test_members_of_a_job_are_those_of_its_report() -> None:
    assert JobEntry.__struct_fields__ == JobReport.__struct_fields__


@given(st.lists(reports, max_size=3), st.booleans())
def test_every_report_is_what_its_schema_says(given_reports: list[RunReport], details: bool) -> None:
    document = check("report", report_document(given_reports, as_of=NOON, details=details))
    for report, shown in zip(given_reports, document["runs"], strict=True):
        assert sum(shown["counts"].values()) == shown["expected"]
        assert ("jobs" in shown) == (details and report.jobs is not None)
        assert set(shown) - {"jobs"} == set(SCHEMAS["report"]["$defs"]["run"]["required"])
        for job in shown.get("jobs", []):
            assert set(job) == set(SCHEMAS["report"]["$defs"]["job"]["required"])


@given(insights)
def test_all_there_is_to_know_of_a_run_is_what_the_schema_says(insight: RunSummary) -> None:
    document = check("report", report_document([run(summary=insight)], as_of=NOON, details=True))
    described = SCHEMAS["report"]["$defs"]["run"]
    assert set(document["runs"][0]) == set(described["required"]) | INSIGHT
    assert set(described["properties"]) - set(described["required"]) == INSIGHT | {"jobs"}
    (shown,) = read(report_document([run(summary=insight)], as_of=NOON, details=False))["runs"]
    assert not INSIGHT & set(shown)


@given(reports)
def test_a_report_in_pieces_is_the_same(report: RunReport) -> None:
    whole = report_document([msgspec.structs.replace(report, jobs=report.jobs or ())], as_of=NOON, details=True)
    assert json.loads("".join(report_pieces(report, as_of=NOON))) == read(whole)


@given(reports)
def test_every_status_is_what_its_schema_says(report: RunReport) -> None:
    check("status", status_document(report, as_of=NOON))
    chosen = JobSelection(jobs=("a",), labels=(report.name,))
    steering = Intervention(act="set", selection=chosen, set={"requestMemory": "8G"})
    check("steer", steer_document(report, steering, as_of=NOON))


def opened(odd: str) -> OpenRun:
    card = RunIdentity(format=1, id=odd, name=odd, service=odd, longshore="0", created_at=0.0, expected=3, labels={})
    return OpenRun(run=RunPaths(Path("/runs") / odd.replace("\0", "")), card=card)


@given(odd_text, st.none() | reports)
def test_every_submit_and_resume_is_what_its_schema_says(odd: str, end: RunReport | None) -> None:
    run = opened(odd)
    submitted = check("submit", submit_document(run.run, run.card, site=odd, notes=[odd], end=end, as_of=NOON))
    assert ("state" in submitted) == ("exit_status" in submitted) == (end is not None)
    check("resume", resume_document(run, [odd], as_of=NOON))


@given(reports, odd_text, st.dictionaries(odd_text, st.integers(0, 9)))
def test_the_documents_of_the_other_verbs_are_what_their_schemas_say(
    report: RunReport, odd: str, labels: dict[str, int]
) -> None:
    run = opened(odd)
    check("cancel", cancel_document([report, report], as_of=NOON))
    check("resume_all", resume_all_document([resume_document(run, [odd], as_of=NOON)], as_of=NOON))
    again = RestartPlan(
        labels={label: {JobState.FAILED: 1} for label in labels},
        reasons={label: dict.fromkeys(RestartReason, 1) for label in labels},
        unfinished=0,
        changed=1,
        changes=RestartChanges(selection=JobSelection(jobs=(odd,)), set={"requestMemory": odd}, from_labels=(odd,)),
    )
    restarted = check("restart", restart_document(run, again, submitted=True, notes=[odd], as_of=NOON))
    assert restarted["from"] == [read(odd)]
    done = StageResult(stage=Stage.ACQUIRE, made=odd, counts={"tasks": 3}, labels=labels, seconds=0.5, peak_memory_b=7)
    check("stages", stages_document([done], None, as_of=NOON))


@given(odd_text, st.none() | st.dictionaries(odd_text, st.integers(0, 2**62), max_size=3))
def test_every_ping_is_what_its_schema_says(odd: str, capacity: dict[str, int] | None) -> None:
    report = PingReport(service=odd, ok=True, message=odd, details={odd: odd}, capacity=capacity)
    check("ping", PingDocument.from_record(report, as_of=NOON))


origins = st.builds(Origin, file=odd_text, line=st.integers(0, 9), column=st.integers(0, 9), layer=odd_text)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=8,
)
errors = st.builds(ConfigError, odd_text, origin=st.none() | origins, hint=odd_text)


@given(st.dictionaries(odd_text, values, max_size=3), origins, st.booleans())
def test_every_configuration_is_what_its_schema_says(
    written: dict[str, Any], origin: Origin, with_origins: bool
) -> None:
    document = check("config_show", config_show_document(to_node(written, origin), origins=with_origins))
    assert ("origins" in document) == with_origins


@given(
    st.builds(
        KeyExplanation,
        is_found=st.booleans(),
        value=values,
        origin=st.none() | origins,
        written=values,
        overridden_values=st.lists(
            st.builds(OverriddenValue, value=values, origin=origins, section=st.none()), max_size=2
        ).map(tuple),
        hidden_values=st.lists(
            st.builds(OverriddenValue, value=values, origin=origins, section=odd_text), max_size=2
        ).map(tuple),
        steps=st.lists(
            st.builds(
                InterpolationStep,
                kind=st.sampled_from(StepKind),
                depth=st.integers(0, 9),
                name=odd_text,
                text=odd_text,
                origin=st.none() | origins,
            ),
            max_size=3,
        ).map(tuple),
        error=st.none() | errors,
    ),
    odd_text,
)
def test_every_explanation_is_what_its_schema_says(explained: KeyExplanation, key: str) -> None:
    document = check("explain", explain_document({key: explained, "nope": KeyExplanation(is_found=False, value="")}))
    assert ("error" in document["values"][read(key)]) == (explained.error is not None and key != "nope")


@given(
    st.lists(
        st.builds(
            Finding,
            message=odd_text,
            origin=origins,
            hint=odd_text,
            severity=st.sampled_from(Severity),
            hidden=st.booleans(),
        ),
        max_size=3,
    ),
    odd_text,
    st.booleans(),
)
def test_every_lint_is_what_its_schema_says(findings: list[Finding], text: str, ok: bool) -> None:
    sources = {finding.origin.file: text for finding in findings}
    document = check("lint", lint_document(LintResult(findings=tuple(findings), sources=sources), ok=ok))
    assert document["errors"] + document["warnings"] + document["notes"] == len(findings)
    assert all(
        shown["source"] is None for shown, each in zip(document["findings"], findings, strict=True) if each.hidden
    )


@given(
    st.builds(
        KnownSite,
        name=odd_text,
        service=st.none() | odd_text,
        title=odd_text,
        place=st.sampled_from([*SiteFolderKind, "configuration"]),
        origin=origins,
        error=st.none() | odd_text,
    ),
    st.dictionaries(odd_text, st.integers() | odd_text, max_size=3),
)
def test_every_site_is_what_its_schema_says(listed: KnownSite, said: dict[str, Any]) -> None:
    check("sites", sites_document([listed, listed], as_of=NOON))
    places: dict[tuple[str, ...], tuple[Any, Origin]] = {(key,): (value, listed.origin) for key, value in said.items()}
    shown = SiteDescription(entry=listed, chain=(listed.name,), values=said, origins=places)
    check("site_profile", site_profile_document(shown, as_of=NOON))


def error_classes(root: type[LongshoreError]) -> Iterator[type[LongshoreError]]:
    yield root
    for child in root.__subclasses__():
        yield from error_classes(child)


OWN_ARGUMENTS: dict[type[LongshoreError], dict[str, Any]] = {
    CodeRefusedError: {"why": "is code"},
    GraphCommandError: {"exit_status": 37},
    RunNotMeantError: {"path": "/run"},
}


@pytest.mark.parametrize("error_class", list(error_classes(LongshoreError)))
def test_every_error_is_what_its_schema_says(error_class: type[LongshoreError]) -> None:
    if error_class is CycleError:
        check("error", error_document(CycleError(["a", "b", "a"])))
        return
    if error_class is UndefinedNameError:
        check("error", error_document(UndefinedNameError("free_nodes")))
        return
    for origin in (None, Origin("--set"), Origin("a.yaml", 1, 2, "user"), Origin("\udcff", 1, 2)):
        check(
            "error",
            error_document(
                error_class("'x' is wrong", origin=origin, hint="Write y.", **OWN_ARGUMENTS.get(error_class, {}))
            ),
        )


@pytest.mark.parametrize(
    ("state", "exit_status"), list(zip(JobState, [10, 11, 12, 13, 14, 15, 16, 17, 0, 19, 20], strict=True))
)
def test_status_gives_the_exit_status_of_bps(state: JobState, exit_status: int) -> None:
    assert status_document(run(state=state), as_of=NOON).exit_status == exit_status


def test_a_report_in_full() -> None:
    job = JobReport(
        name="isr_2",
        label="isr",
        state=JobState.FAILED,
        cause=Cause.EXIT,
        attempts=2,
        exit_code=3,
        started_at=NOON,
        run_s=1.5,
        log="logs/isr/00/isr_2.2.log",
    )
    report = run(submitted_at=NOON - 1, started_at=NOON, finished_at=NOON + 2.5, jobs=(job,), notes=("a note",))
    document = read(report_document([report], as_of=NOON, details=True))
    assert {name: document[name] for name in document if name != "runs"} == {
        "schema_version": 1,
        "kind": "report",
        "as_of": "2025-11-20T12:00:00.123Z",
        "notes": [],
    }
    shown = document["runs"][0]
    assert shown["counts"]["FAILED"] == 1
    assert shown["counts"]["HELD"] == 0
    assert list(shown["labels"]) == ["isr", "calibrate"]
    assert shown["labels"]["calibrate"]["PRUNED"] == 1
    assert (shown["submitted_at"], shown["finished_at"]) == ("2025-11-20T11:59:59.123Z", "2025-11-20T12:00:02.623Z")
    assert (shown["wall_s"], shown["percent_succeeded"]) == (pytest.approx(2.5), 33)
    assert shown["jobs"] == [
        {
            "name": "isr_2",
            "label": "isr",
            "state": "FAILED",
            "cause": "EXIT",
            "reason": None,
            "attempts": 2,
            "exit_code": 3,
            "signal": None,
            "host": None,
            "started_at": "2025-11-20T12:00:00.123Z",
            "finished_at": None,
            "run_s": 1.5,
            "cpu_s": None,
            "peak_memory_b": None,
            "log": "logs/isr/00/isr_2.2.log",
            "not_retried": None,
        }
    ]


def test_an_error_in_full() -> None:
    error = ConfigError("'x' is no number", origin=Origin("a.yaml", 3, 5, "user"), hint="Write 3.")
    assert read(error_document(error)) == {
        "schema_version": 1,
        "error": {
            "code": "configuration",
            "message": "'x' is no number",
            "origin": {"file": "a.yaml", "line": 3, "column": 5, "layer": "user"},
            "hint": "Write 3.",
            "exit_status": 3,
        },
    }
    faults = (
        ErrorDetail("request", "too much", Origin("a.yaml", 3, 5, "user"), "Ask for less.", "isr", 7),
        ErrorDetail("files", "x"),
    )
    error.details = faults
    document = check("error", error_document(error))
    assert [each["message"] for each in document["error"]["problems"]] == ["too much", "x"]
    assert document["error"]["problems"][0] == {
        "code": "request",
        "message": "too much",
        "origin": {"file": "a.yaml", "line": 3, "column": 5, "layer": "user"},
        "hint": "Ask for less.",
        "label": "isr",
        "jobs": 7,
    }
    assert read(error_document(ConfigError("'x'", origin=Origin("--set"))))["error"]["origin"] == {
        "file": "--set",
        "line": None,
        "column": None,
        "layer": "",
    }


def test_schemas_refuse_what_is_wrong() -> None:
    """A schema that takes anything would hold nothing."""
    document = read(report_document([run()], as_of=NOON, details=False))
    del document["runs"][0]["counts"]["HELD"]
    with pytest.raises(jsonschema.ValidationError):
        check("report", document)
    with pytest.raises(jsonschema.ValidationError):
        check("status", {**read(status_document(run(), as_of=NOON)), "as_of": "2025-11-20 12:00"})


texts = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=5), texts, max_size=4))
def test_what_is_written_reads_back(document: dict[str, Any]) -> None:
    written = to_json(document)
    written.encode()
    assert not set(written) & {chr(number) for number in (*range(10), *range(11, 32), *range(127, 160), 0x2028, 0x2029)}
    assert json.loads(written) == json.loads(json.dumps(document))


def test_names_stay_readable() -> None:
    assert to_json({"name": "日本 é"}) == '{\n  "name": "日本 é"\n}'
    assert to_json({"name": "日本 \udcff\x9b"}) == '{\n  "name": "日本 \\udcff\\u009b"\n}'


def test_the_documents_of_the_registry_are_what_their_schemas_say() -> None:
    card = RunIdentity(
        format=1, id="k7f3a", name="n", service="local", longshore="0", created_at=0.0, expected=1, labels={}
    )
    outcomes = [
        AdoptResult(path=Path("/a"), card=card),
        AdoptResult(path=Path("/a"), card=card, former_path="/b"),
        AdoptResult(path=Path("/c"), error=LongshoreError("no")),
    ]
    check("adopt", adopt_document(outcomes, as_of=NOON))
    check("forget", forget_document([ForgottenRun(id="k", path=""), ForgottenRun(id="k", path="/a")], as_of=NOON))


def test_the_document_of_a_picture_is_what_its_schema_says() -> None:
    boxes = (
        DrawingNode(name="a", label="a", jobs=3, counts={JobState.FAILED: 1, JobState.SUCCEEDED: 2}),
        DrawingNode(name="b1", label="b", here=True),
        DrawingNode(name="7 more", label="b", jobs=7, more=True),
    )
    picture = Drawing(title="t", boxes=boxes, arrows=(DrawingEdge(start=0, end=1, jobs=2), DrawingEdge(start=0, end=2)))
    check("draw", draw_document(picture, as_of=NOON))
