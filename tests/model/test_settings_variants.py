"""Settings that differ in their requests only are stored once in the header, with a request per variant."""

from __future__ import annotations

import msgspec
import pytest

from longshore.errors import RunUnreadableError
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Request, Workflow
from longshore.model.workflow_lines import WorkflowHeader, decode_header, decode_job, workflow_lines

USUAL = JobSettings(label="work", environment={"NAME": "value"}, attributes={"queue": "long"})
OTHER = JobSettings(label="other", environment={"NAME": "value"})


def with_memory(settings: JobSettings, memory_b: int) -> JobSettings:
    return msgspec.structs.replace(settings, request=Request(memory_b=memory_b))


def workflow_of(*settings: JobSettings) -> Workflow:
    jobs = [
        Job(name=f"j{number}", label=each.label, command="true", settings=each) for number, each in enumerate(settings)
    ]
    return Workflow("w", Dag(jobs, parents=[[] for _ in jobs]))


def read_lines(workflow: Workflow) -> tuple[WorkflowHeader, list[JobSettings], bytes]:
    """Header, settings of each job, and the header's line."""
    first, *lines = workflow_lines(workflow)
    header = decode_header(first, path="workflow.jsonl")
    return header, [header.settings[decode_job(line).s] for line in lines], first


def test_each_job_has_its_settings_after_reading() -> None:
    settings = [with_memory(USUAL, 5), OTHER, with_memory(USUAL, 7), with_memory(OTHER, 7), USUAL]
    settings += [settings[0], settings[2]]
    header, found, line = read_lines(workflow_of(*settings))
    assert found == settings
    assert [each.label for each in header.settings[:2]] == ["work", "other"]
    assert len(header.settings) == 5
    assert line.count(b'"queue"') == 1


def test_read_settings_share_all_but_the_request() -> None:
    header, *_ = read_lines(workflow_of(*(with_memory(USUAL, number) for number in range(3))))
    first, second, third = header.settings
    assert first.environment is second.environment is third.environment


def test_only_a_workflow_with_variants_needs_the_newest_reader() -> None:
    assert read_lines(workflow_of(USUAL, OTHER, USUAL))[0].v == 1
    assert read_lines(workflow_of(USUAL, with_memory(USUAL, 1)))[0].v == 4


def test_equal_settings_give_equal_bytes_whether_objects_are_shared_or_not() -> None:
    shared = [with_memory(USUAL, number) for number in range(3)]
    copied = [msgspec.json.decode(msgspec.json.encode(each), type=JobSettings) for each in shared]
    assert list(workflow_lines(workflow_of(*shared))) == list(workflow_lines(workflow_of(*copied)))


def test_a_variant_of_settings_that_are_not_there_is_refused() -> None:
    _, _, line = read_lines(workflow_of(USUAL, with_memory(USUAL, 1)))
    with pytest.raises(RunUnreadableError, match="not in its header"):
        decode_header(line.replace(b'"base":0', b'"base":9'), path="workflow.jsonl")
