"""Facts of jobs, which LSF tells after their ends."""

from __future__ import annotations

from typing import Any

from tests.live.runs import until
from tests.services.lsf.lsf_site import LsfSite

from longshore.services.lsf.answers import STORED_FIELDS


def test_explain_has_the_fields_of_bjobs_once_the_engine_has_collected_them(lsf_site: LsfSite) -> None:
    text = "runQuantumCommand: exit 3\nnumberOfRetries: 0\nqueue: short\nbsub: ['-G astro', '-e errors.txt']\n"
    run = lsf_site.submit(text).json["submit_dir"]

    def extra() -> Any:
        return lsf_site.cli("explain", run, "a", "--json").json["attempts"][-1]["extra"]

    found = until(extra, "the facts of the attempt", patience_s=30)
    assert set(found) == set(STORED_FIELDS)
    shown = {name: found[name] for name in ("stat", "exit_code", "queue", "user_group", "error_file", "from_host")}
    assert shown == {
        "stat": "EXIT",
        "exit_code": "3",
        "queue": "short",
        "user_group": "astro",
        "error_file": "errors.txt",
        "from_host": "hostB",
    }
    assert found["exec_cwd"] == run
    assert found["finish_time"].endswith(" L")


def test_an_end_at_the_limit_of_lsf_can_be_a_success(lsf_site: LsfSite) -> None:
    text = "runQuantumCommand: sleep 300\nnumberOfRetries: 0\nrequestWalltime: 60\nsuccessIf: {state: TERM_RUNLIMIT}\n"
    ran = lsf_site.submit(text)
    assert ran.returncode == 0, ran.stderr
    assert lsf_site.counts(ran.json["submit_dir"]) == {"SUCCEEDED": 1}
