"""What a profile says reaches a service as it was meant, also what this machine has no use for."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from longshore.contract.service import Context
from longshore.errors import ConfigError, Origin
from longshore.plan.profiles import ProfileCompiler
from longshore.plan.resolved_run import resolve_run
from longshore.progress import RecordingProgress

PROFILE: dict[str, Any] = {
    "partitions": [{"name": "long", "cpus": 64, "memory": "240 GiB", "walltime": "2-00:00:00", "default": True}],
    "qos": "normal",
    "directives": ["-x", "--constraint={not a variable}"],
    "setup": {"submit": ["kinit -k"], "job": ["ulimit -s unlimited"]},
    "modules": ["gcc/13"],
    "inheritEnvironment": ["PATH", "LC_*"],
    "fileSystem": "transfer",
    "container": "apptainer exec image.sif",
    "capabilities": ["gpu", "internet"],
    "umask": "0027",
    "local": {"of": {"the": "service"}, "text": "{stays}"},
}
TEXT = """
service: local
title: All there is to say
account: theirs
partitions: [{name: long, cpus: 64, memory: 240 GiB, walltime: "2-00:00:00", default: true}]
qos: normal
directives: [-x, "--constraint={not a variable}"]
setup: {submit: [kinit -k], job: [ulimit -s unlimited]}
modules: [gcc/13]
inheritEnvironment: [PATH, LC_*]
fileSystem: transfer
container: apptainer exec {image}
image: image.sif
capabilities: [gpu, internet]
umask: "0027"
local: {of: {the: service}, text: "{stays}"}
limits: {cpus: 9, queued: 8, running: 7, arraySize: 6, submitRate: 30/min, pollFloor: 90}
"""


class Silent:
    def note(self, text: str) -> None:
        """Nobody listens."""

    def stage(self, text: str) -> None:
        """Nobody listens."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("all", TEXT)
    return tmp_path


def write(name: str, text: str) -> None:
    Path("sites").mkdir(exist_ok=True)
    Path("sites", f"{name}.yaml").write_text(dedent(text), "utf-8")


def begun(text: str) -> tuple[Context, ProfileCompiler, RecordingProgress]:
    Path("run.yaml").write_text(f"sitePath: sites\n{text}", "utf-8")
    progress = RecordingProgress(Silent())
    run = resolve_run(Path("run.yaml"), now=0.0, progress=progress)
    return run.context, ProfileCompiler(run), progress


def test_all_that_is_said_is_carried() -> None:
    ctx, profiles, _ = begun("computeSite: all\n")
    assert {key: ctx.site.settings[key] for key in PROFILE} == PROFILE
    assert ctx.site.name == "all"
    assert ctx.site.origin
    assert ctx.site.origin.file.endswith("all.yaml")
    assert ctx.settings["umask"] == 0o027
    executor = ctx.settings["executor"]
    assert executor["inherit"] == ["PATH", "LC_*"]
    assert executor["limits"] == {
        "max_waiting": 8,
        "max_active": 7,
        "max_batch": 6,
        "submit_per_s": 0.5,
        "poll_floor_s": 90,
    }
    settings = profiles.job_profile("A").settings
    assert settings.attributes["accountingGroup"] == "theirs"
    assert "ulimit -s unlimited" in settings.setup[-1]


def test_a_user_says_otherwise_and_a_map_is_merged() -> None:
    text = """
        computeSite: all
        accountingGroup: mine
        modules: [clang]
        local: {of: {a: map}}
        site: {all: {qos: fast, local: {more: 1}, limits: {running: 2, queued: 99}}}
    """
    ctx, profiles, progress = begun(dedent(text))
    assert ctx.site.settings["modules"] == ["clang"]
    assert ctx.site.settings["qos"] == "fast"
    assert ctx.site.settings["local"] == {"of": {"the": "service", "a": "map"}, "text": "{stays}", "more": 1}
    assert ctx.settings["executor"]["limits"]["max_active"] == 2
    assert ctx.settings["executor"]["limits"]["max_waiting"] == 8
    assert profiles.job_profile("A").settings.attributes["accountingGroup"] == "mine"
    (note,) = [note for note in progress.notes if "above the" in note]
    assert "'limits.queued' is 99" in note
    assert "above the 8 of the site 'all'" in note


@pytest.mark.parametrize(
    "said",
    [
        "limits: {cpu: 1}",
        "limits: {running: 0}",
        "partitions: [{cpus: 3}]",
        "partitions: [{name: p, nodes: 0}]",
        "partitions: [{name: p, node: 3}]",
        "directives: -x",
        "setup: [x]",
        "setup: {jobs: [x]}",
        "inheritEnvironment: some",
        "fileSystem: nfs",
        "umask: '9'",
        "capabilities: gpu",
        "templates: [a]",
        "qos: [a]",
        "slurm: text",
    ],
)
def test_what_is_wrong_is_found_whatever_the_service(said: str) -> None:
    write("wrong", f"service: local\n{said}\n")
    with pytest.raises(ConfigError) as caught:
        begun("computeSite: wrong\n")
    assert f"'{said.partition(':')[0]}" in caught.value.message
    assert caught.value.origin
    assert (caught.value.origin.file, caught.value.origin.line) == ("sites/wrong.yaml", 2)


def test_what_the_site_of_some_jobs_says_in_vain() -> None:
    write("other", "{service: local, inheritEnvironment: none, umask: '0077', limits: {running: 3, cpus: 2}, queue: q}")
    _, profiles, _ = begun("computeSite: local\npipetask: {A: {computeSite: other}}\n")
    settings = profiles.job_profile("A").settings
    assert (settings.site, settings.attributes["queue"], settings.request.cpus) == ("other", "q", 1)
    profiles.job_profile("B")
    (note,) = profiles.notes
    assert note == (
        "'inheritEnvironment', 'umask', 'limits.running' of the site 'other' have no effect: the site 'local' sets "
        "them for the whole run"
    )


def test_the_site_and_the_cloud_of_a_cluster() -> None:
    write("one", "{service: local, queue: one}")
    write("two", "{service: local, queue: two, computeCloud: sky}")
    text = """
        computeSite: one
        cluster: {B: {computeSite: two}}
        pipetask: {C: {computeCloud: sea}}
        cloud: {sky: {category: high}, sea: {category: low}}
    """
    _, profiles, _ = begun(dedent(text))
    found = {label: profiles.job_profile(label).settings for label in "ABC"}
    assert [settings.site for settings in found.values()] == ["one", "two", "one"]
    assert [settings.cloud for settings in found.values()] == [None, "sky", "sea"]
    assert [settings.attributes["queue"] for settings in found.values()] == ["one", "two", "one"]
    assert [settings.attributes.get("category") for settings in found.values()] == [None, "high", "low"]


def test_two_services_in_one_run() -> None:
    write("far", "{service: slurm}")
    _, profiles, _ = begun("computeSite: all\ncluster: {B: {computeSite: far}}\n")
    with pytest.raises(
        ConfigError, match="the site 'far' of 'B' belongs to 'slurm', and this run to 'local'"
    ) as caught:
        profiles.job_profile("B")
    assert caught.value.origin == Origin("run.yaml", 3, 28, "file")


@pytest.mark.parametrize("folder", ["x" * 300, "~nobody-of-this-name/sites", "/" + "a/" * 3000])
def test_an_impossible_site_path_is_an_error_with_its_place(folder: str) -> None:
    with pytest.raises(ConfigError, match="is no directory") as caught:
        begun(f"sitePath: {folder}\n")
    assert caught.value.origin is not None
    assert caught.value.origin.file == "run.yaml"
