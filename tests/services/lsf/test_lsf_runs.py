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
