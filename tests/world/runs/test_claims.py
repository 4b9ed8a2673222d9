"""Claims on a machine: a free lock is a dead claim, unless a keeper still waits for its jobs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from longshore.model.run.claim import ResourceClaim
from longshore.world.runs.claims import (
    STALE_S,
    ClaimFile,
    ClaimUnreadableError,
    claims_folder,
    lock_claims,
    read_other_claims,
)


def others(now: float = 0.0) -> list[tuple[str, bool]]:
    return [(claim.run, claim.alive) for claim in read_other_claims(claims_folder(), "me", now=now)]


def held(run: str, keeper: str = "") -> ClaimFile:
    file = ClaimFile(claims_folder(), run)
    file.write(ResourceClaim(run=run, keeper=keeper, leased={"cpus": 2}))
    return file


def test_a_claim_is_visible_until_its_release() -> None:
    file, mine = held("a-1"), held("me")
    assert others() == [("a-1", True)]
    file.write(ResourceClaim(run="a-1", leased={"cpus": 1}))
    (claim,) = read_other_claims(claims_folder(), "me", now=0.0)
    assert claim.leased == {"cpus": 1}, "shorter than before, and whole"
    file.release()
    assert others() == []
    mine.release()


def test_the_claim_of_an_engine_that_was_killed_is_removed() -> None:
    file = held("a-1")
    os.close(file._lock.file)
    assert file.path.exists()
    assert others() == []
    assert not file.path.exists()


def test_a_dead_engines_claim_counts_while_its_keeper_lives(tmp_path: Path) -> None:
    records = tmp_path / "0001.1.jsonl"
    keeper = os.open(records, os.O_RDWR | os.O_CREAT)
    fcntl.flock(keeper, fcntl.LOCK_EX)
    os.close(held("a-1", str(tmp_path))._lock.file)
    assert others() == [("a-1", False)]
    os.close(keeper)
    assert others() == []


def test_an_engine_that_is_stopped_has_no_more_than_its_jobs() -> None:
    file = held("a-1")
    assert others(now=STALE_S + 1) == [("a-1", False)]
    file.release()


def test_a_claim_that_has_just_been_made_claims_nothing() -> None:
    file = ClaimFile(claims_folder(), "a-1")
    assert others() == []
    assert file.path.exists()
    file.release()


def test_an_unreadable_claim_raises_an_error() -> None:
    file = held("a-1")
    os.pwrite(file._lock.file, b"{{", 0)
    with pytest.raises(ClaimUnreadableError, match="a-1"):
        others()
    os.close(file._lock.file)
    assert others() == [], "but a dead one is none"


def test_a_run_has_one_claim() -> None:
    file = held("a-1")
    with pytest.raises(BlockingIOError):
        ClaimFile(claims_folder(), "a-1")
    file.release()
    held("a-1").release()


def test_one_negotiates_at_a_time() -> None:
    claims_folder().mkdir(parents=True)
    with lock_claims(claims_folder()), pytest.raises(BlockingIOError):
        lock_claims(claims_folder())
    lock_claims(claims_folder()).release()
