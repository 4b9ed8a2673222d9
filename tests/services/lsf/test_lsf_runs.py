"""Runs on LSF, by programs that print its recorded replies and really run the scripts."""

from __future__ import annotations

from tests.live.runs import many
from tests.services.lsf.lsf_site import LsfSite


def test_a_chain_and_an_array_run_to_their_end(lsf_site: LsfSite) -> None:
    tasks = {**many(6), "b": ("B", ["t0", "t1"]), "c": ("C", ["b"])}
    ran = lsf_site.submit("runQuantumCommand: 'true'\nqueue: short\nbsub: ['-P gen014ecpci']\n", tasks)
    assert ran.returncode == 0, ran.stderr
    assert lsf_site.counts(ran.json["submit_dir"]) == {"SUCCEEDED": 8}
    first = next(lsf_site.log())
    assert "[1-6]'" in first
    assert "#BSUB -q short" in first
    assert "#BSUB -P gen014ecpci" in first


def test_a_job_gets_the_first_queue_of_the_site_that_holds_it(lsf_site: LsfSite) -> None:
    lsf_site.describe("partitions: [{name: short, walltime: '0:10:00'}, {name: normal, cpus: 4}]\n")
    text = "runQuantumCommand: 'true'\nrequestWalltime: '0:05:00'\npipetask: {B: {requestWalltime: '1:00:00'}}\n"
    ran = lsf_site.submit(text, {"a": ("A", []), "b": ("B", ["a"])})
    assert ran.returncode == 0, ran.stderr
    assert ["-q short" in script for script in lsf_site.log()] == [True, False]
    assert ["-q normal" in script for script in lsf_site.log()] == [False, True]
    refused = lsf_site.submit(f"{text}requestCpus: 8\n", {"b": ("B", [])})
    assert refused.returncode != 0
    assert "the nearest, 'normal', lacks cpus of a node (8 asked, 4 there)" in refused.stderr
    assert len(list(lsf_site.log())) == 2, "nothing was submitted"
