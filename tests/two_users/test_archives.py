"""Archives of runs of other users, and of directories that their own user cannot remove."""

from __future__ import annotations

import os

from tests.two_users.accounts import Account
from tests.two_users.runs import submit, tree


def test_a_run_of_another_user_is_archived_and_stays_as_it_is(ann: Account, bob: Account) -> None:
    run = submit(ann)
    before = tree(run)
    output = bob.home / "run.tar.gz"
    done = bob("archive", run, "--output", output)
    assert done.returncode == 0, done.stderr
    assert bob("status", output).returncode == 0
    refused = bob("archive", run, "--output", bob.home / "other.tar.gz", "--remove")
    assert refused.returncode == 6
    assert f"'{run}' belongs to the user '{ann.uid}'" in refused.stderr
    assert tree(run) == before


def test_a_file_that_another_user_may_not_read_is_named(ann: Account, bob: Account) -> None:
    run = submit(ann)
    (run / "secret.txt").write_text("x", "utf-8")
    (run / "secret.txt").chmod(0o600)
    refused = bob("archive", run, "--output", bob.home / "run.tar.gz")
    assert refused.returncode == 7
    assert f"'{run}/secret.txt': Permission denied" in refused.stderr
    assert not (bob.home / "run.tar.gz").exists()


def test_a_folder_that_cannot_be_emptied_is_named_with_the_way_out(ann: Account) -> None:
    run = submit(ann)
    (folder := run / "results").mkdir()
    (folder / "output.fits").write_bytes(b"x")
    for path in (folder / "output.fits", folder):
        os.chown(path, ann.uid, ann.gid)
    folder.chmod(0o555)
    failed = ann("archive", run, "--output", ann.home / "run.tar.gz", "--remove")
    assert failed.returncode == 7
    assert "still has results/output.fits" in failed.stderr
    assert ann("status", ann.home / "run.tar.gz").returncode == 0
    (rest,) = run.parent.glob(".*.draft")
    assert f"chmod -R u+rwX {rest} && rm -r {rest}" in failed.stderr
    assert ann.run("sh", "-c", failed.stderr.partition("remove the rest: ")[2].strip()).returncode == 0
    assert not rest.exists()
