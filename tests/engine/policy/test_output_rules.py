"""Rules on declared outputs: which findings fail an attempt, and how they are described."""

from __future__ import annotations

import msgspec
import pytest

from longshore.engine.policy.success_rules import judge_outputs
from longshore.model.event import Ended, FileStamp, OutputFinding, OutputState
from longshore.model.states import Cause
from longshore.model.workflow import OutputCheck
from longshore.rundir.batch_records import parse_findings, parse_stamps

PATHS = ("/a", "/b", "/c", "/d", "/e")
MISSING, STALE, EMPTY = OutputState


def ended(*states: OutputState) -> Ended:
    return Ended(j=0, a=1, exit=0, outputs=tuple(OutputFinding(number, state) for number, state in enumerate(states)))


@pytest.mark.parametrize(
    ("states", "check", "cause", "reason"),
    [
        ((), OutputCheck.FRESH, None, None),
        ((MISSING,), OutputCheck.EXISTS, Cause.OUTPUT_MISSING, "the output '/a' is missing"),
        ((MISSING,), OutputCheck.NONE, None, None),
        ((STALE,), OutputCheck.EXISTS, None, "the output '/a' is as it was before the attempt"),
        ((EMPTY,), OutputCheck.FRESH, Cause.OUTPUT_MISSING, "the output '/a' is empty"),
        ((EMPTY, MISSING), OutputCheck.EXISTS, Cause.OUTPUT_MISSING, "the output '/b' is missing"),
        (
            (MISSING,) * 5,
            OutputCheck.EXISTS,
            Cause.OUTPUT_MISSING,
            "the output '/a' is missing; the output '/b' is missing; the output '/c' is missing; and 2 more outputs",
        ),
    ],
)
def test_the_verdict_on_outputs(
    states: tuple[OutputState, ...], check: OutputCheck, cause: Cause | None, reason: str | None
) -> None:
    found = judge_outputs(ended(*states), check, PATHS)
    assert (found.cause, found.reason) == (cause, reason)
    kept = states if check is not OutputCheck.NONE else ()
    assert [(each.path, each.state) for each in found.outputs or ()] == list(zip(PATHS, kept, strict=False))


def test_findings_of_a_wrapper() -> None:
    assert parse_findings("0 missing 12 stale") == (OutputFinding(0, MISSING), OutputFinding(12, STALE))
    assert parse_findings("") == ()
    for text in ("0", "0 gone", "x missing"):
        with pytest.raises(ValueError, match=r"."):
            parse_findings(text)


def test_a_finding_beyond_the_outputs_does_not_count() -> None:
    end = Ended(j=0, a=1, outputs=(OutputFinding(7, MISSING),))
    assert judge_outputs(end, OutputCheck.EXISTS, PATHS).cause is None


def test_stamps_of_a_wrapper() -> None:
    assert parse_stamps("12 1790000000.004512000 0 -5.5") == (
        FileStamp(12, 1_790_000_000_004_512_000),
        FileStamp(0, -4_500_000_000),
    )
    assert parse_stamps("") == ()
    for text in ("12", "12 x", "x 12.0", "12 1.2.3"):
        with pytest.raises(ValueError, match=r"."):
            parse_stamps(text)


@pytest.mark.parametrize(
    ("end", "check", "kept"),
    [
        (ended(), OutputCheck.EXISTS, True),
        (ended(STALE), OutputCheck.EXISTS, True),
        (ended(STALE), OutputCheck.FRESH, False),
        (ended(), OutputCheck.NONE, False),
        (Ended(j=0, a=1, exit=3, cause=Cause.EXIT), OutputCheck.EXISTS, False),
    ],
)
def test_only_the_stamps_of_a_success_are_kept(end: Ended, check: OutputCheck, *, kept: bool) -> None:
    stamps = (FileStamp(1, 2),)
    found = judge_outputs(msgspec.structs.replace(end, stamps=stamps), check, PATHS)
    assert found.stamps == (stamps if kept else ())
