"""A list under computeSite names candidates; sections without effect, and a ping of a site, are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.config.schema import Finding, Severity
from longshore.errors import ConfigError, UsageError
from longshore.plan.lint_file import lint_file
from longshore.plan.ping import ping
from longshore.plan.resolved_run import resolve_run
from longshore.progress import QuietProgress

OWN = "pipeline: {tasks: {one: {command: 'true'}}}\n"


def findings(path: Path, text: str) -> list[Finding]:
    path.write_text(f"{text}{OWN}submitPath: {path.parent}/run\n", "utf-8")
    return list(lint_file(path, now=0).findings)


def messages(path: Path, text: str) -> list[tuple[str, str]]:
    """Return severity and message of what lint finds."""
    return [(each.severity.value, each.message) for each in findings(path, text)]


SITES = "site: {gpu-a: {service: local}, gpu-b: {service: local}, plain: {service: local}}\n"


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [("[plain, local]", "plain"), ('["gpu-*", plain]', "gpu-a"), ('["none-*", local]', "local"), ("[gpu-b]", "gpu-b")],
)
def test_the_first_candidate_is_taken(tmp_path: Path, candidates: str, chosen: str) -> None:
    path = tmp_path / "run.yaml"
    assert not any(each.severity is Severity.ERROR for each in findings(path, f"computeSite: {candidates}\n{SITES}"))
    assert resolve_run(path, now=0, progress=QuietProgress()).configuration.site == chosen


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ("[plain, nosuch]", "there is no site 'nosuch'"),
        ('["none-*"]', "no site matches 'none-*'"),
        ("[]", "'computeSite' is an empty list, which names no site"),
    ],
)
def test_candidates_that_do_not_exist(tmp_path: Path, candidates: str, message: str) -> None:
    assert ("error", message) in messages(tmp_path / "run.yaml", f"computeSite: {candidates}\n{SITES}")


def test_a_label_has_no_candidates(tmp_path: Path) -> None:
    found = messages(tmp_path / "run.yaml", "pipetask: {one: {computeSite: [local]}}\n")
    assert found == [("error", "a part of a run names one site: only the run itself has a list of candidates")]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("siteSelecton: {a: 1}\n", "nothing knows the key 'siteSelecton'", "Did you mean 'siteSelection'?"),
        ("slrum: {qos: x}\n", "no key of 'slrum' has an effect", "Did you mean 'slurm'?"),
        ("nosuchList: [1]\n", "no item of 'nosuchList' has an effect", ""),
        ("site: {local: {slrum: {a: 1}}}\n", "no key of 'site.local.slrum' has an effect", "Did you mean 'slurm'?"),
        ("site: {local: {nosuch: [1]}}\n", "no item of 'site.local.nosuch' has an effect", ""),
        ("pipetask: {one: {slrum: {a: 1}}}\n", "no key of 'pipetask.one.slrum' has an effect", "Did you mean 'slurm'?"),
        ("pipetask: {one: {nosuch: [1]}}\n", "no item of 'pipetask.one.nosuch' has an effect", ""),
    ],
)
def test_unknown_maps_and_lists_are_told(tmp_path: Path, text: str, message: str, hint: str) -> None:
    (found,) = findings(tmp_path / "run.yaml", text)
    assert (found.severity, found.message) == (Severity.WARNING, message)
    assert hint in found.hint
    assert found.origin.line == 1


def test_a_list_that_another_service_alone_has(tmp_path: Path) -> None:
    message = "'bsub' is for the service 'lsf', and this run's is 'local'"
    assert messages(tmp_path / "run.yaml", "bsub: ['-W 10']\n") == [("error", message)]


@pytest.mark.parametrize("place", ["{}", "pipetask: {{one: {{{}}}}}", "site: {{local: {{{}}}}}"])
def test_a_section_of_another_service_is_told(tmp_path: Path, place: str) -> None:
    ((severity, message),) = messages(tmp_path / "run.yaml", place.format("slurm: {partition: x}") + "\n")
    assert severity == "note"
    assert message.endswith("slurm' has no effect: it is for the service 'slurm', and this run's is 'local'")


def test_sections_of_several_services_are_meant_for_several_sites(tmp_path: Path) -> None:
    found = messages(tmp_path / "run.yaml", "slurm: {partition: x}\nsge: {hard: '-l a=b'}\n")
    assert [severity for severity, _ in found] == ["note", "note"]


def test_a_section_of_a_site_that_is_not_chosen_is_not_judged(tmp_path: Path) -> None:
    found = messages(
        tmp_path / "run.yaml", "site: {far: {service: slurm, slurm: {partition: x}}, local: {umask: '0002'}}\n"
    )
    assert found == []


def test_a_site_is_pinged_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("service: local\nresources: {cpus: 1}\n", "utf-8")
    assert ping(None, site="mine", site_path=[str(tmp_path)]).ok
    with pytest.raises(ConfigError, match="there is no site 'mime'"):
        ping(None, site="mime", site_path=[str(tmp_path)])
    with pytest.raises(UsageError, match="which is no directory"):
        ping(None, site="mine", site_path=[str(tmp_path / "gone")])
    with pytest.raises(UsageError, match="without a site has no effect"):
        ping(None, site_path=[str(tmp_path)])
