"""Claims of outputs: what two runs share, who holds one, and that of two at once only one goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from longshore.model.file_identity import FileIdentity
from longshore.rundir.output_claims import (
    Claim,
    OutputKeys,
    RunOutputs,
    claim_path,
    claimed_runs,
    hold_claims,
    make_output_keys,
    read_claim,
    remove_claim,
    write_claim,
)
from longshore.system.links import DiskLinks


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def outputs(root: Path, *paths: str) -> RunOutputs:
    identity = FileIdentity(str(root), DiskLinks())
    return RunOutputs("id", paths, identity, make_output_keys(paths, identity), ())


def test_what_two_runs_share(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    own = outputs(tmp_path / "run", f"{tmp_path}/out/x", f"{tmp_path}/all", "s3://bucket/x", "inside", "logs/x")
    for path, shared in (
        (f"{tmp_path}/link/x", f"{tmp_path}/out/x"),
        (f"{tmp_path}/out", f"{tmp_path}/out/x"),
        (f"{tmp_path}/all/deep/part", f"{tmp_path}/all"),
        ("s3://bucket/x", "s3://bucket/x"),
        (f"{tmp_path}/out/y", None),
        (f"{tmp_path}/al", None),
        (f"{tmp_path}/run/inside", None),
    ):
        other = outputs(tmp_path / "other", path)
        assert bool(own.keys.common(other.keys)) is (shared is not None), path
        assert own.path_among([path]) == shared if shared else True


def test_a_claim_is_read_as_it_was_written(tmp_path: Path) -> None:
    keys = outputs(tmp_path / "run", *(f"{tmp_path}/{name}" for name in range(100))).keys
    claim = Claim(id="abc", path=str(tmp_path), ancestors=("aaa",), keys=keys)
    held = write_claim(claim)
    assert read_claim("abc") == Claim(id="abc", path=str(tmp_path), ancestors=("aaa",), keys=keys, is_held=True)
    held.close()
    assert read_claim("abc") == claim
    assert claimed_runs() == ["abc"]
    assert claim_path("abc").stat().st_size < 8 * 110 + 200
    claim_path("abd").write_bytes(b"damaged\n12345")
    assert (read_claim("abd"), read_claim("absent")) == (None, None)
    remove_claim("abc")
    remove_claim("abc")
    assert claimed_runs() == ["abd"]


def test_only_one_process_compares_at_a_time(tmp_path: Path) -> None:
    seen: list[int] = []

    def submit(number: int) -> None:
        with hold_claims():
            before = claimed_runs()
            write_claim(Claim(id=f"run{number}", path=str(tmp_path), keys=OutputKeys()))
            seen.append(len(before))

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == list(range(8)), "each saw all that were before it"


def test_without_a_state_folder_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert claimed_runs() == []
    with hold_claims(), pytest.raises(OSError, match="state"):
        write_claim(Claim(id="abc", path="/r"))
