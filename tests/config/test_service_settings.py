"""What sections say to one workload manager: the strongest wins key by key, lines add up, and null takes back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.config.profiles import scope_of

from longshore.config.combine import combine_profiles
from longshore.config.interpolate import Scope
from longshore.config.merge import LayerRank
from longshore.config.profile import JobProfile, ServiceKeys, compile_profile
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml
from longshore.errors import ConfigError

SLURM_KEYS = ServiceKeys("slurm", ("directives", "sbatch"))


def profile(text: str, label: str = "a", *, site: str = "", cluster: str | None = None) -> JobProfile:
    config = Config(parse_yaml(text, "x.yaml", rank=LayerRank.FILE))
    scope = scope_of(("visit", "jobName", "label"), site=site, env={})
    return compile_profile(config, label, scope, cluster=cluster, service_keys=SLURM_KEYS)


def service_settings(text: str, label: str = "a", *, site: str = "") -> dict[str, Any]:
    return dict(profile(text, label, site=site).settings.service_settings)


def test_the_strongest_section_wins_key_by_key() -> None:
    text = """
slurm: {partition: main, qos: low, features: [x]}
site: {here: {slurm: {qos: normal}}, slurm: {partition: no}}
pipetask: {a: {slurm: {qos: high, features: null}}, b: {slurm: {qos: none}}}
cluster: {a: {slurm: {nice: 3}}}
"""
    assert service_settings(text, site="here") == {"partition": "main", "qos": "high", "features": None, "nice": 3}
    assert service_settings("{slurm: null, pipetask: {a: {slurm: {qos: high}}}}") == {"qos": "high"}
    assert service_settings("requestCpus: 2") == {}


def test_lines_add_up_and_null_takes_them_back() -> None:
    text = """
directives: ["--root"]
site: {here: {directives: ["--site"]}}
sbatch: ["-t 5"]
pipetask:
  a: {directives: "--label", sbatch: ["-C haswell"]}
  b: {directives: null}
  c: {directives: null, sbatch: ["-N 1"]}
cluster: {a: {directives: ["--cluster"]}}
"""
    assert service_settings(text)["directives"] == ["--root", "-t 5", "--label", "-C haswell", "--cluster"]
    assert service_settings(text, site="here")["directives"] == ["--site", "-t 5", "--label", "-C haswell", "--cluster"]
    assert service_settings(text, "b")["directives"] == []
    assert service_settings(text, "c")["directives"] == ["-N 1"]


def test_single_keys_and_further_maps_go_along() -> None:
    words = ServiceKeys("htcondor", keys=("nodeset", "overwrite"), maps=("attrs", "profile.condor"))
    text = """
nodeset: "{who}_set"
who: me
overwrite: true
profile: {condor: {+Project: '"x"', rank: Memory}, panda: {queue: q}}
site: {here: {profile: {condor: {rank: Disk}}, overwrite: null}}
attrs: {Night: 1}
pipetask: {a: {attrs: {Visit: "{visit}"}, profile: {condor: {+Project: null}}}}
"""
    config = Config(parse_yaml(text, "x.yaml", rank=LayerRank.FILE))
    found = compile_profile(config, "a", scope_of(("visit",), site="here", env={}), service_keys=words)
    assert dict(found.service_settings_of({"visit": 7})) == {
        "nodeset": "me_set",
        "overwrite": None,
        "profile.condor": {"+Project": None, "rank": "Disk"},
        "attrs": {"Night": 1, "Visit": "7"},
    }
    wrong = Config(parse_yaml("{profile: {condor: 3}}", "x.yaml", rank=LayerRank.FILE))
    with pytest.raises(ConfigError, match=r"'profile\.condor' must be a map"):
        compile_profile(wrong, "a", service_keys=words)


def test_a_container_is_one_sections_affair() -> None:
    text = "{container: apptainer exec a.sif, pipetask: {a: {container: [podman, run]}, b: {container: null}}}"
    assert service_settings(text)["container"] == ["podman", "run"]
    assert "container" not in service_settings(text, "b")
    assert service_settings(text, "c")["container"] == "apptainer exec a.sif"


def test_variables_are_filled_in_and_jobs_have_their_own() -> None:
    found = profile("{who: me, slurm: {wckey: '{who}_{label}'}, pipetask: {a: {directives: ['--comment={visit}']}}}")
    assert found.settings.service_settings == {}
    assert found.service_settings["wckey"] == "me_a"
    assert found.service_settings_of({"visit": 3}) == {"wckey": "me_a", "directives": ["--comment=3"]}
    whole = combine_profiles("a", "a", [("a", 1)], {"a": found})
    assert whole.has_varying_settings
    assert whole.settings_of([("a", {"visit": 4})]).service_settings["directives"] == ["--comment=4"]


def test_a_section_of_a_job_of_its_own_wins_and_maps_may_be_nested() -> None:
    text = "{slurm: {engineJob: {time: '{span}', mem: 1G}, qos: low}, span: '2:00', finalJob: {slurm: {qos: high}}}"
    config = Config(parse_yaml(text, "x.yaml", rank=LayerRank.FILE))
    scope = Scope(free=frozenset({"jobName"}), searchobj=config.node_at("finalJob"))
    found = compile_profile(config, "f", scope, service_keys=SLURM_KEYS)
    assert found.settings.service_settings == {"engineJob": {"time": "2:00", "mem": "1G"}, "qos": "high"}
    nested = profile("{slurm: {engineJob: {mailUser: '{visit}'}}}")
    assert nested.service_settings_of({"visit": 7}) == {"engineJob": {"mailUser": "7"}}


def test_labels_of_a_cluster_must_agree() -> None:
    text = "pipetask: {a: {slurm: {qos: high}}, b: {slurm: {partition: p}}, c: {slurm: {qos: low}}}"
    parts = {label: profile(text, label, cluster="k") for label in "abc"}
    assert combine_profiles("k", "k", [("a", 1), ("b", 1)], parts).settings.service_settings == {
        "qos": "high",
        "partition": "p",
    }
    with pytest.raises(ConfigError, match="Inconsistent value for qos in cluster k"):
        combine_profiles("k", "k", [("a", 1), ("c", 1)], parts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slurm: 3", "'slurm' must be a map"),
        ("directives: {a: 1}", "'directives' must be lines of text"),
        ("sbatch: [[a]]", "'sbatch' must be lines of text"),
        ("pipetask: {a: {directives: [null]}}", "'directives' must be lines of text"),
    ],
)
def test_the_wrong_kind_is_refused_where_it_stands(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        service_settings(text)
    assert caught.value.origin
    assert caught.value.origin.file == "x.yaml"


def test_a_service_without_a_map_of_its_own_hears_nothing() -> None:
    config = Config(parse_yaml("{slurm: 3, directives: {a: 1}}", "x.yaml", rank=LayerRank.FILE))
    assert compile_profile(config, "a").settings.service_settings == {}
