"""The whole stack of layers: who wins over whom, and what each kind of source can say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longshore.config.interpolate import Scope
from longshore.config.layers import Overrides
from longshore.config.schema import Finding
from longshore.errors import ConfigError
from longshore.plan.configuration import Draft, read_draft
from longshore.plan.lint import check_configuration

KEY = "queue"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{tmp_path}/etc1:{tmp_path}/etc2")
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/home")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def load(
    text: str = "{}", *, sets: tuple[str, ...] = (), options: dict[str, str] | None = None
) -> tuple[Draft, list[Finding]]:
    Path("run.yaml").write_text(text, "utf-8")
    draft = read_draft(Path("run.yaml"), Overrides(options or {}, sets), now=0.0)
    return draft, check_configuration(draft)


def value(key: str, text: str = "{}", **how: Any) -> Any:
    return load(text, **how)[0].search(key)


# ------------------------------------------------------------------------------------------------- who wins over whom


def test_each_layer_wins_over_all_below_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the weakest to the strongest, one after the other is added."""
    text = "computeSite: campus\n"
    write(here / "home/longshore/sites/campus.yaml", "service: local\n")
    assert value(KEY, text) == ""
    write(here / "etc2/longshore/longshore.yaml", "queue: less important system\n")
    assert value(KEY, text) == "less important system"
    write(here / "etc1/longshore/longshore.yaml", "queue: system\n")
    assert value(KEY, text) == "system"
    write(here / "home/longshore/longshore.yaml", "queue: user\n")
    assert value(KEY, text) == "user"
    write(here / "home/longshore/sites/campus.yaml", "service: local\nqueue: site\n")
    assert value(KEY, text) == "site"
    monkeypatch.setenv("LONGSHORE_QUEUE", "environment")
    assert value(KEY, text) == "environment"
    write(here / "more.yaml", "queue: included\n")
    assert value(KEY, f"{text}includeConfigs: more.yaml\n") == "included"
    text += "queue: file\n"
    assert value(KEY, f"{text}includeConfigs: more.yaml\n") == "file"
    assert value(KEY, text, options={KEY: "option"}) == "option"
    assert value(KEY, text, options={KEY: "option"}, sets=("queue=set",)) == "set"


def test_who_names_the_service(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BPS's row: the command line, the file, the environment, the defaults."""
    assert load()[0].service == "local"
    monkeypatch.setenv("BPS_WMS_SERVICE_CLASS", "lsf")
    assert load()[0].service == "lsf"
    text = "{wmsServiceClass: slurm, computeSite: local}"
    assert load(text)[0].service == "slurm"
    assert load(text, options={"wmsServiceClass": "htcondor"})[0].service == "htcondor"


def test_every_value_knows_its_layer(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "etc1/longshore/longshore.yaml", "a: 1\n")
    write(here / "home/longshore/longshore.yaml", "b: 1\n")
    write(here / "home/longshore/sites/campus.yaml", "c: 1\n")
    monkeypatch.setenv("LONGSHORE_QUEUE", "x")
    found, _ = load("{computeSite: campus, d: 1}", sets=("e=1",))
    layers = {
        key: origin.layer for key in ("requestCpus", "a", "b", "c", "queue", "d", "e") if (origin := found.origin(key))
    }
    assert layers == {
        "requestCpus": "defaults",
        "a": "system",
        "b": "user",
        "c": "site",
        "queue": "environment",
        "d": "file",
        "e": "command line",
    }
    assert str(found.origin("queue")) == "$LONGSHORE_QUEUE"
    assert str(found.origin("a")) == f"{here}/etc1/longshore/longshore.yaml:1:4"


def test_maps_merge_lists_and_scalars_replace_through_the_stack(here: Path) -> None:
    write(here / "etc1/longshore/longshore.yaml", "m: {a: 1, b: {x: 1, y: 1}, l: [1, 2]}\ns: 1\n")
    write(here / "home/longshore/longshore.yaml", "m: {b: {y: 2}, l: [3]}\n")
    found, _ = load("m: {c: 3, b: {z: 3}}\ns: {t: 1}\n")
    assert found.search("m") == {"a": 1, "b": {"x": 1, "y": 2, "z": 3}, "l": [3], "c": 3}
    assert found.search("s") == {"t": 1}


def test_delete_and_null(here: Path) -> None:
    write(here / "etc1/longshore/longshore.yaml", "m: {a: 1, b: 2}\nqueue: long\n")
    found, _ = load("m: {a: !delete }\nqueue: null\nrequestMemory: !delete \n")
    assert found.search("m") == {"b": 2}
    assert found.config.search("queue").is_found, "null is a value"
    assert found.search("queue") is None
    assert not found.config.search("requestMemory").is_found
    again, _ = load("m: !delete \n", sets=("m.c=1",))
    assert again.search("m") == {"c": 1}


def test_files_of_machine_and_user_include_others_and_are_kept(here: Path) -> None:
    write(here / "etc1/longshore/longshore.yaml", "includeConfigs: campus.yaml\n")
    write(here / "etc1/longshore/campus.yaml", "queue: long\n")
    found, _ = load()
    assert found.search(KEY) == "long"
    assert {read.path.name for read in found.read_files()} == {"run.yaml", "longshore.yaml", "campus.yaml"}


def test_a_broken_file_of_the_machine_is_named(here: Path) -> None:
    write(here / "etc1/longshore/longshore.yaml", "queue: [\n")
    with pytest.raises(ConfigError) as caught:
        load()
    assert str(caught.value.origin).startswith(f"{here}/etc1/longshore/longshore.yaml:")


def test_relative_folders_of_the_environment_are_ignored(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "etc/longshore/longshore.yaml", "queue: long\n")
    monkeypatch.setenv("XDG_CONFIG_DIRS", "etc")
    assert value(KEY) == ""


# ---------------------------------------------------------------------------------------------------- the environment


@pytest.mark.parametrize(
    ("name", "text", "key", "expected"),
    [
        ("LONGSHORE_REQUEST_MEMORY", "4096", "requestMemory", 4096),
        ("LONGSHORE_REQUEST_MEMORY", "4 GiB", "requestMemory", "4 GiB"),
        ("LONGSHORE_MAKE_ID_LINK", "true", "makeIdLink", True),
        ("LONGSHORE_REQUEST_RESOURCES", "{gpu: 1}", "requestResources", {"gpu": 1}),
        ("LONGSHORE_RETRY_UNLESS_EXIT", "[3, 4]", "retryUnlessExit", [3, 4]),
        ("LONGSHORE_OUTPUT", "mine/{operator}x", "output", "mine/rootx"),
        ("LONGSHORE_OPERATOR", "ann", "output", "u/ann/run"),
        ("LONGSHORE_SUBMIT_PATH", "/there", "submitPath", "/there"),
        ("LONGSHORE_SITE", "{local: {queue: q}}", "queue", "q"),
        ("LONGSHORE_REQUEST_MEMORY", "", "requestMemory", 2048),
        ("BPS_WMS_SERVICE_CLASS", "lsst.ctrl.bps.htcondor.HTCondorService", "wmsServiceClass", None),
    ],
)
def test_keys_of_the_environment(
    name: str, text: str, key: str, expected: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "root")
    monkeypatch.setenv(name, text)
    assert value(key) == (text if expected is None else expected)


@pytest.mark.parametrize(
    "name", ["LONGSHORE_JOB_QUEUE", "LONGSHORE_JOB_NAME", "LONGSHORE_TEST_QUEUE", "LONGSHORE_POOLS"]
)
def test_what_is_no_key_of_the_environment(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "[")
    found, findings = load()
    assert found.search(KEY) == ""
    assert not findings


def test_a_key_that_is_nearly_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHORE_REQUEST_MEMROY", "1")
    monkeypatch.setenv("LONGSHORE_ZEBRA", "1")
    (finding,) = load()[1]
    assert finding.message == "the environment variable 'LONGSHORE_REQUEST_MEMROY' is unknown"
    assert finding.hint == "Did you mean 'LONGSHORE_REQUEST_MEMORY'?"
    assert str(finding.origin) == "$LONGSHORE_REQUEST_MEMROY"


def test_a_value_that_is_no_yaml(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHORE_REQUEST_RESOURCES", "{gpu: ")
    with pytest.raises(ConfigError, match="the value of 'LONGSHORE_REQUEST_RESOURCES' cannot be read"):
        load()


def test_the_newer_of_two_words_for_the_service(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BPS_WMS_SERVICE_CLASS", "lsst.ctrl.bps.panda.PanDAService")
    monkeypatch.setenv("LONGSHORE_WMS_SERVICE_CLASS", "local")
    assert load()[0].service == "local"


# ----------------------------------------------------------------------------------------------------- sites and layers


def test_a_root_key_beats_a_profile_and_a_section_beats_the_root(here: Path) -> None:
    write(here / "home/longshore/sites/campus.yaml", "{queue: profile, requestCpus: 3, slurm: {a: 1, b: 1}}")
    base = "computeSite: campus\n"
    assert value(KEY, base) == "profile"
    assert value("requestCpus", base) == 3
    assert value(KEY, base + "queue: root\n") == "root"
    assert value(KEY, base + "queue: root\nsite: {campus: {queue: section}}\n") == "section"
    assert value(KEY, base + "queue: root\nsite: {other: {queue: section}}\n") == "root"
    found, _ = load(base + "slurm: {b: 2}\nsite: {campus: {slurm: {c: 3}}}\n")
    assert found.resolved_site.settings["slurm"] == {"a": 1, "b": 2, "c": 3}, "read whole"


def test_a_section_can_be_all_there_is_of_a_site(here: Path) -> None:
    found, _ = load(
        "computeSite: mine\nsite: {mine: {service: local, account: survey, scratch: '${HOME}/tmp', queue: q}}\n"
    )
    assert (found.site, found.service) == ("mine", "local")
    assert found.search("accountingGroup") == "survey"
    assert found.resolved_site.settings["scratch"].endswith("/tmp")
    assert not found.resolved_site.settings["scratch"].startswith("$")


def test_a_section_inherits_a_profile(here: Path) -> None:
    write(here / "home/longshore/sites/base.yaml", "{service: local, queue: base, limits: {cpus: 4}}")
    found, _ = load("computeSite: mine\nsite: {mine: {inherits: base, limits: {cpus: 9}}}\n")
    assert found.search(KEY) == "base"
    assert found.resolved_site.limits["cpus"].amount == 4
    assert len(found.resolved_site.notes) == 1


def test_a_profile_deletes_what_it_inherits(here: Path) -> None:
    write(here / "home/longshore/sites/base.yaml", "{service: local, modules: [gcc], queue: q}")
    write(here / "home/longshore/sites/mine.yaml", "{inherits: base, modules: !delete , queue: !delete , x: !delete }")
    write(here / "etc1/longshore/longshore.yaml", "{queue: of the machine, x: 1}")
    found, _ = load("computeSite: mine\n")
    assert "modules" not in found.resolved_site.settings
    assert not found.config.search(KEY).is_found
    assert not found.config.search("x").is_found


def test_clouds_group_sites(here: Path) -> None:
    profile = "{computeCloud: east, cloud: {east: {queue: cloud, requestCpus: 7}}}"
    write(here / "home/longshore/sites/a.yaml", profile)
    found, _ = load("computeSite: a\n")
    current = {"curr_site": "a", "curr_cloud": found.search("computeCloud")}
    assert found.config.search("requestCpus", Scope(current=current)).value == 7


def test_account_is_a_default(here: Path) -> None:
    write(here / "home/longshore/sites/a.yaml", "account: theirs\n")
    assert value("accountingGroup", "computeSite: a\n") == "theirs"
    assert value("accountingGroup", "computeSite: a\naccountingGroup: mine\n") == "mine"


def test_the_strongest_place_of_a_name(here: Path) -> None:
    write(here / "etc1/longshore/sites/a.yaml", "queue: system\n")
    assert value(KEY, "computeSite: a\n") == "system"
    write(here / "home/longshore/sites/a.yaml", "queue: user\n")
    assert value(KEY, "computeSite: a\n") == "user"
    write(here / "given/a.yaml", "queue: given\n")
    assert value(KEY, "computeSite: a\nsitePath: [given]\n") == "given"
    assert value(KEY, "computeSite: a\n", options={"sitePath": "given"}) == "given"


def test_an_unknown_site(here: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("computeSite: campsu\nsite: {campus: {queue: q}}\n")
    assert caught.value.message == "there is no site 'campsu'"
    assert str(caught.value.origin) == "run.yaml:1:14"
    assert "Did you mean 'campus'?" in caught.value.hint
    assert "longshore site list" in caught.value.hint
    assert f"{here}" not in caught.value.hint


@pytest.mark.parametrize("name", ["../a", "a/b", ".a"])
def test_names_that_would_leave_the_folder(name: str, here: Path) -> None:
    write(here / "home/longshore/a.yaml", "queue: q\n")
    with pytest.raises(ConfigError, match="there is no site"):
        load(f"computeSite: {name}\n")


def test_a_profile_that_is_wrong(here: Path) -> None:
    write(here / "home/longshore/sites/a.yaml", "queue: q\nmodules: gcc\n")
    with pytest.raises(ConfigError, match=r"sites/a\.yaml:2:10: 'modules' must be a list"):
        load("computeSite: a\n")


def test_a_variable_that_happens_to_have_the_name_of_a_word_about_sites(here: Path) -> None:
    found, _ = load("setup: 'source x'\nrunQuantumCommand: '{setup}; run'\n")
    assert "setup" not in found.resolved_site.settings
    assert "'setup' is used as a variable" in found.resolved_site.notes[0]
    assert found.search("runQuantumCommand") == "source x; run"


# ----------------------------------------------------------------------------------------------------------- the host


@pytest.fixture
def anywhere(here: Path) -> Path:
    write(here / "home/longshore/sites/a.yaml", "{service: local, hosts: ['*'], queue: a}")
    return here


def test_the_site_of_a_host(anywhere: Path) -> None:
    assert load()[0].site == "a"
    assert load("computeSite: local")[0].site == "local"


def test_a_host_of_two_sites(anywhere: Path) -> None:
    write(anywhere / "home/longshore/sites/b.yaml", "inherits: a\n")
    assert load()[0].site == "a", "hosts are not inherited"
    write(anywhere / "home/longshore/sites/b.yaml", "{hosts: ['?*']}")
    with pytest.raises(ConfigError, match=r"belongs to more than one site: 'a' \(.*a\.yaml\) and 'b' \(.*b\.yaml\)"):
        load()


def test_the_site_of_a_host_must_suit_the_service_that_is_asked_for(anywhere: Path) -> None:
    write(anywhere / "home/longshore/sites/a.yaml", "{service: slurm, hosts: ['*']}")
    assert load()[0].service == "slurm"
    found = load("wmsServiceClass: local")[0]
    assert (found.site, found.service) == ("local", "local")


def test_no_site_for_another_service(here: Path) -> None:
    assert load("wmsServiceClass: slurm")[0].site == ""
