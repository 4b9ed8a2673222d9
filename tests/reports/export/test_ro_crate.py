"""Crates hold to what RO-Crate 1.1 and Process Run Crate 0.5 require, whatever names jobs and files have."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.disk import room_for

from longshore.errors import FilesError
from longshore.model.event import Attempt
from longshore.model.report import RunReport
from longshore.model.states import Cause, JobState
from longshore.reports.export.ro_crate import MAX_JOBS, CrateFile, CrateRun, render_metadata, write_crate
from longshore.reports.export.wfformat import TracedJob, TracedRun

NASTY = ["<b>&", "a\nb", 'a"b', "\udcff", "\ud800", "\0", "..", "/", "ü", "a b", "x#1", "%41", "s3://b/a b"]
NAMES = st.text(st.characters(), min_size=1, max_size=8) | st.sampled_from(NASTY)
ISO_8601 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")
CONTENT = {"ro-crate-metadata.json": (b"{}",), "attempts.csv": (b"a", b"b")}


def crate(*jobs: TracedJob, state: JobState = JobState.SUCCEEDED, **values: Any) -> CrateRun:
    newest = {
        number: job.success or Attempt(job=number, number=2, started_at=3.0, ended_at=4.0, cause=Cause.OOM)
        for number, job in enumerate(jobs)
    }
    report = RunReport(
        id="k7f3aa",
        name=values.pop("name", "w"),
        path="/run",
        service="local",
        state=state,
        expected=len(jobs),
        counts={},
        labels={},
        user=values.pop("user", "ada"),
        started_at=2.0,
        finished_at=5.0 if state is not JobState.RUNNING else None,
    )
    trace = TracedRun(id="k7f3aa", name="w", version="0.1.0", created_at=1.0, jobs=jobs, sizes={})
    files = values.pop("files", {})
    return CrateRun(trace=trace, report=report, newest=newest, files=files, **values)


def job(name: str, *, outputs: tuple[str, ...] = (), inputs: tuple[str, ...] = (), label: str = "fit") -> TracedJob:
    ended = Attempt(job=0, number=1, host="h", started_at=2.0, ended_at=3.0)
    return TracedJob(name=name, label=label, inputs=inputs, outputs=outputs, success=ended)


def check(run: CrateRun) -> dict[str, Any]:
    """Return the entities of a crate by their ids, after a check of what the specifications require."""
    text = render_metadata(run)
    assert text == render_metadata(run)
    document = json.loads(text)
    entities = {entity["@id"]: entity for entity in document["@graph"]}
    # https://www.researchobject.org/ro-crate/specification/1.1/appendix/jsonld.html: a flat graph of entities, each
    # with an id of its own and a type.
    assert len(entities) == len(document["@graph"])
    assert all(entity["@type"] for entity in entities.values())
    _check_root(entities)
    _check_data(entities)
    # https://w3id.org/ro/wfrun/process/0.5, Requirements: conformsTo of the root, and instrument of each action.
    profile = entities[entities["./"]["conformsTo"]["@id"]]
    assert profile["@id"].startswith("https://w3id.org/ro/wfrun/process/")
    assert profile["@type"] == "CreativeWork"
    for action in (entity for entity in entities.values() if entity["@type"] == "CreateAction"):
        assert entities[action["instrument"]["@id"]]["@type"] == "SoftwareApplication"
        assert action["@id"] in ids(entities["./"]["mentions"])
    return entities


def _check_root(entities: dict[str, Any]) -> None:
    # https://www.researchobject.org/ro-crate/specification/1.1/root-data-entity.html: the descriptor, and the four
    # properties of the root.
    descriptor, root = entities["ro-crate-metadata.json"], entities["./"]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert root["@type"] == "Dataset"
    assert root["name"]
    assert root["description"]
    assert root["license"]
    assert ISO_8601.fullmatch(root["datePublished"])


def _check_data(entities: dict[str, Any]) -> None:
    # https://www.researchobject.org/ro-crate/specification/1.1/data-entities.html: ids are URIs, and the root has all
    # data entities as parts; what an entity refers to is described.
    data = {each for each, entity in entities.items() if entity["@type"] in {"File", "Dataset"} and each != "./"}
    assert data == set(ids(entities["./"]["hasPart"]))
    for each in entities:
        assert re.fullmatch(r"[!#$&-;=?-\[\]_a-z~%]+", each), each
    for entity in entities.values():
        for key, value in entity.items():
            if isinstance(value, dict | list) and key != "conformsTo":
                assert set(ids(value)) <= entities.keys()


def ids(value: Any) -> list[str]:
    return [each["@id"] for each in (value if isinstance(value, list) else [value])]


def test_jobs_are_actions_with_their_files() -> None:
    files = {
        "in": CrateFile(path="/data/in.yaml", size_b=5, sha256="ab"),
        "mid": CrateFile(path="/run/mid dle", size_b=6),
        "out": CrateFile(path="/run/out", is_directory=True),
        "web": CrateFile(path="https://x.org/a b?q=1"),
    }
    run = crate(
        job("a", inputs=("in", "web"), outputs=("mid",)), job("b", inputs=("mid",), outputs=("out",)), files=files
    )
    found = check(run)
    assert ids(found["#job-a"]["object"]) == ["file:///data/in.yaml", "https://x.org/a%20b?q=1"]
    assert ids(found["#job-a"]["result"]) == ids(found["#job-b"]["object"]) == ["file:///run/mid%20dle"]
    assert found["#job-a"]["actionStatus"].endswith("/CompletedActionStatus")
    assert found["file:///data/in.yaml"] == {
        "@id": "file:///data/in.yaml",
        "@type": "File",
        "name": "in.yaml",
        "contentSize": "5",
        "encodingFormat": "application/yaml",
        "sha256": "ab",
    }
    assert found["file:///run/out/"]["@type"] == "Dataset"
    whole = found["#run"]
    assert ids(whole["object"]) == ["file:///data/in.yaml", "https://x.org/a%20b?q=1"]
    assert {"file:///run/mid%20dle", "file:///run/out/", "attempts.csv", "workflow.json"} == set(ids(whole["result"]))


def test_a_failed_job_has_its_error_and_no_result() -> None:
    failed = TracedJob(name="a", label="fit", outputs=("out",))
    found = check(crate(failed, state=JobState.FAILED, files={"out": CrateFile(path="/run/out")}))
    action = found["#job-a"]
    assert (action["actionStatus"], action["error"]) == ("http://schema.org/FailedActionStatus", "OOM")
    assert "result" not in action
    assert "file:///run/out" not in found


def test_a_live_run_is_no_success() -> None:
    found = check(crate(job("a"), state=JobState.RUNNING))
    assert found["#run"]["actionStatus"].endswith("/ActiveActionStatus")
    assert "endTime" not in found["#run"]


def test_a_large_run_refers_to_its_table() -> None:
    found = check(crate(*[job(f"j{number}", outputs=("out",)) for number in range(MAX_JOBS + 1)]))
    assert len(found) < 10
    assert "attempts.csv" in found["./"]["description"]


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=4, unique_by=lambda each: each[0]), NAMES)
def test_any_names_give_a_valid_crate(names: list[tuple[str, str, str]], name: str) -> None:
    jobs = [job(own, label=label, outputs=(file,)) for own, label, file in names]
    files = {file: CrateFile(path=file if "://" in file else f"/run/{file}") for _, _, file in names}
    found = check(crate(*jobs, name=name, user=name, files=files))
    assert sum(each.startswith("#job-") for each in found) == len(names)


def test_a_crate_is_a_directory_or_an_archive(tmp_path: Path) -> None:
    write_crate(tmp_path / "crate", CONTENT)
    assert (tmp_path / "crate" / "attempts.csv").read_bytes() == b"ab"
    for name in ("a.zip", "b.zip", "a.zip"):
        write_crate(tmp_path / name, CONTENT)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == list(CONTENT)
        assert archive.read("attempts.csv") == b"ab"


@pytest.mark.parametrize(("name", "words"), [("", "exists already"), ("old", "exists already"), ("no/x", "mkdir -p")])
def test_what_cannot_become_a_crate_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "old").write_text("", "utf-8")
    with pytest.raises(FilesError) as caught:
        write_crate(tmp_path / name, CONTENT)
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("name", ["crate", "crate.zip"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, name: str) -> None:
    noise = bytes(number * number % 251 for number in range(100_000))
    with room_for(100), pytest.raises(FilesError):
        write_crate(tmp_path / name, {**CONTENT, "big": (noise,)})
    assert list(tmp_path.iterdir()) == []
