"""Values of a job made of tasks of several labels, as BPS combines them, whatever order the labels come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.combine import ClusterProfile, TaskGroup, combine_profiles, combine_settings
from longshore.config.interpolate import Scope
from longshore.config.merge import Layer, LayerRank, merge_layers
from longshore.config.profile import compile_profile
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml
from longshore.errors import ConfigError, Origin
from longshore.model.workflow import MIB, JobSettings, Request

HERE = Origin("here.yaml", 1, 1)


def profile_of(text: str, tasks: Mapping[str, int] | None = None, *, free: str = "") -> ClusterProfile:
    """The profile of a cluster `X` of one task of each of two labels, unless told otherwise."""
    config = Config(merge_layers([Layer("here.yaml", LayerRank.FILE, parse_yaml(dedent(text), "here.yaml"))]))
    tasks = tasks or {"T1": 1, "T2": 1}
    names = frozenset(["label", "jobName", "jobLabel", *free.split()])
    parts = {label: compile_profile(config, label, Scope(free=names), cluster="X") for label in tasks}
    return combine_profiles("X", "X", list(tasks.items()), parts)


def settings_of(text: str, tasks: Mapping[str, int] | None = None) -> JobSettings:
    return profile_of(text, tasks).settings


class TestRequest:
    def test_the_most_memory(self) -> None:
        request = settings_of("pipetask: {T1: {requestMemory: 99, requestCpus: 3}, T2: {requestMemory: 5000}}").request
        assert (request.memory_b, request.cpus) == (5000 * MIB, 3)

    def test_the_cluster_overrides(self) -> None:
        text = "pipetask: {T1: {requestMemory: 99}, T2: {requestMemory: 5000}}\ncluster: {X: {requestMemory: 10}}"
        assert settings_of(text).request.memory_b == 10 * MIB

    def test_sums(self) -> None:
        text = "requestDisk: 100\npipetask: {T1: {requestWalltime: 60}, T2: {requestWalltime: '0:01'}}"
        request = settings_of(text).request
        assert (request.disk_b, request.walltime_s) == (200 * MIB, 120)

    def test_a_task_without_one_adds_nothing(self) -> None:
        text = "pipetask: {T1: {requestWalltime: '1:00', requestDisk: null}, T2: {requestMemory: 1}}"
        request = settings_of(text, {"T1": 3, "T2": 2}).request
        assert (request.disk_b, request.walltime_s) == (None, 3 * 3600)

    def test_many_tasks_of_one_label(self) -> None:
        request = settings_of("{requestDisk: 5, requestWalltime: 10, requestMemory: 7}", {"T1": 4}).request
        assert (request.disk_b, request.walltime_s, request.memory_b) == (20 * MIB, 40, 7 * MIB)

    def test_what_the_cluster_says_of_a_sum_is_for_all_tasks_together(self) -> None:
        text = "requestDisk: 5\nrequestWalltime: 10\ncluster: {X: {requestDisk: 7}}"
        request = settings_of(text, {"T1": 4, "T2": 2}).request
        assert (request.disk_b, request.walltime_s) == (7 * MIB, 60)
        assert settings_of(text + "\nbps_cmdline: {requestDisk: 1}", {"T1": 4}).request.disk_b == 4 * MIB

    def test_counted_resources_are_used_one_after_another(self) -> None:
        text = "pipetask: {T1: {requestResources: {gpu: 2, license: 1}}, T2: {requestResources: {gpu: 1}}}"
        assert settings_of(text, {"T1": 2, "T2": 2}).request.resources == {"gpu": 2, "license": 1}

    def test_what_nobody_chose_stays_known(self) -> None:
        layers = [
            Layer(
                "d", LayerRank.DEFAULTS, parse_yaml("{requestMemory: 1, requestCpus: 1}", "d", rank=LayerRank.DEFAULTS)
            ),
            Layer("f", LayerRank.FILE, parse_yaml("pipetask: {T1: {requestCpus: 2}}", "f")),
        ]
        config = Config(merge_layers(layers))
        parts = {label: compile_profile(config, label, cluster="X") for label in ("T1", "T2")}
        assert combine_profiles("X", "X", [("T1", 1), ("T2", 1)], parts).settings.defaulted == ("requestMemory",)


class TestRetries:
    TEXT = (
        "pipetask:\n"
        "  T1: {requestMemory: 100, memoryMultiplier: 4, numberOfRetries: 9}\n"
        "  T2: {requestMemory: 200, memoryMultiplier: 2, numberOfRetries: 3}\n"
    )

    @pytest.mark.parametrize("tasks", [{"T1": 1, "T2": 1}, {"T2": 1, "T1": 1}, {"T1": 5, "T2": 1}])
    def test_from_whoever_needs_the_most(self, tasks: Mapping[str, int]) -> None:
        settings = settings_of(self.TEXT, tasks)
        assert settings.request.memory_b == 200 * MIB
        assert (settings.attributes["memoryMultiplier"], settings.number_of_retries) == (2, 3)

    def test_the_most_of_those_that_need_as_much(self) -> None:
        settings = settings_of(self.TEXT.replace("200", "100"))
        assert (settings.attributes["memoryMultiplier"], settings.number_of_retries) == (4, 9)
        settings = settings_of(self.TEXT + "cluster: {X: {requestMemory: 50}}")
        assert (settings.attributes["memoryMultiplier"], settings.number_of_retries) == (4, 9)

    def test_the_cluster_overrides(self) -> None:
        text = self.TEXT + "cluster: {X: {numberOfRetries: 0, memoryMultiplier: 1}}"
        settings = settings_of(text)
        assert settings.number_of_retries == 0
        assert "memoryMultiplier" not in settings.attributes

    def test_rows_52_and_53_off_and_the_default(self) -> None:
        text = "pipetask: {T1: {requestMemory: 1, memoryMultiplier: 3}, T2: {requestMemory: 2, memoryMultiplier: 1.5}}"
        settings = settings_of(text)
        assert (settings.attributes["memoryMultiplier"], settings.number_of_retries) == (1.5, 5)
        for off in (1, 0.5):
            settings = settings_of(text.replace("1.5", f"{off}, numberOfRetries: 4"))
            assert settings.number_of_retries == 4
            assert "memoryMultiplier" not in settings.attributes

    def test_the_most_memory_it_may_grow_to(self) -> None:
        text = "pipetask: {T1: {requestMemoryMax: 7 GiB}, T2: {requestMemoryMax: 5 GiB}, T3: {queue: x}}"
        settings = settings_of(text, {"T1": 1, "T2": 1, "T3": 1})
        assert settings.attributes["requestMemoryMax"] == 7 * 1024 * MIB


class TestWhatMustAgree:
    def test_values_of_two_labels_must_agree(self) -> None:
        text = "pipetask:\n  T1: {queue: a}\n  T2: {queue: b}\n"
        for tasks in ({"T1": 1, "T2": 1}, {"T2": 1, "T1": 1}):
            with pytest.raises(ConfigError, match="Inconsistent value for queue in cluster X") as caught:
                settings_of(text, tasks)
            assert "'a' for 'T1' (here.yaml:2:15)" in caught.value.message
            assert "'b' for 'T2' (here.yaml:3:15)" in caught.value.message
            assert "'cluster.X.queue'" in caught.value.hint
        assert settings_of(text + "cluster: {X: {queue: c}}").attributes["queue"] == "c"

    @pytest.mark.parametrize(
        ("key", "one", "two"),
        [
            ("priority", 1, 0),
            ("preemptible", "true", "false"),
            ("retryUnlessExit", 1, "[1, 2]"),
            ("retryUnlessExit", "[]", "[1]"),
            ("workingDirectory", "/a", "/b"),
            ("computeSite", "s1", "s2"),
            ("computeCloud", "k1", "k2"),
            ("environment", "{A: 1}", "{A: 2}"),
            ("environment", "{A: 1}", "{A: '{visit}'}"),
            ("accountingGroup", "g", "h"),
            ("preCmdline", "x", "y"),
        ],
    )
    def test_all_else(self, key: str, one: Any, two: Any) -> None:
        text = f"pipetask: {{T1: {{{key}: {one}}}, T2: {{{key}: {two}}}}}\n"
        tasks = [("T1", {"visit": 2}), ("T2", {"visit": 2})]
        with pytest.raises(
            ConfigError, match=f"Inconsistent value for {key}.* in cluster X: .* for 'T1' .*, .* for 'T2'"
        ):
            profile_of(text, free="visit").environment_of(tasks)
        same = profile_of(text.replace(str(two), str(one)), free="visit").settings
        settled = profile_of(f"{text}cluster: {{X: {{{key}: {one}}}}}", free="visit").settings
        assert settled == same

    def test_who_says_nothing_agrees(self) -> None:
        settings = settings_of(
            "pipetask: {T1: {queue: a, environment: {A: 1}}, T2: {environment: {B: 2}, queue: null}}"
        )
        assert settings.attributes["queue"] == "a"
        assert settings.environment == {"A": "1", "B": "2"}

    def test_a_site_is_never_half_chosen(self) -> None:
        with pytest.raises(
            ConfigError, match=r"Inconsistent value for computeCloud in cluster X: 'k' for 'T1' .*, none for 'T2'"
        ):
            settings_of("pipetask: {T1: {computeCloud: k}}")

    def test_the_environment_of_every_level(self) -> None:
        text = """
            environment: {A: root, B: root, C: root}
            pipetask: {T1: {environment: {B: one}}, T2: {environment: {D: two}}}
            cluster: {X: {environment: {B: cluster}}}
        """
        assert settings_of(text).environment == {"A": "root", "B": "cluster", "C": "root", "D": "two"}

    def test_values_of_a_job_must_agree_as_well(self) -> None:
        profile = profile_of("environment: {V: 'v{visit}', L: '{jobLabel}'}", free="visit")
        one, two = {"visit": 1, "jobLabel": "X"}, {"visit": 2, "jobLabel": "X"}
        assert profile.environment_of([("T1", one), ("T2", one)]) == {"V": "v1", "L": "X"}
        with pytest.raises(
            ConfigError, match=r"Inconsistent value for environment.V in cluster X: 'v1' .*, 'v2' for 'T2'"
        ):
            profile.environment_of([("T1", one), ("T2", two)])


class TestRequestsOfAJob:
    def test_each_task_counts_with_its_own_values(self) -> None:
        text = """
            requestDisk: '{size}'
            requestWalltime: 60
            pipetask: {T1: {requestMemory: '{size}', numberOfRetries: 1}, T2: {requestMemory: 50, numberOfRetries: 2}}
        """
        profile = profile_of(text, {"T1": 2, "T2": 1}, free="size")
        small = profile.settings_of([("T1", {"size": 1}), ("T1", {"size": 3}), ("T2", {"size": 5})])
        assert small.request == Request(memory_b=50 * MIB, disk_b=9 * MIB, walltime_s=180)
        assert small.number_of_retries == 2
        large = profile.settings_of([("T1", {"size": 1}), ("T1", {"size": 99}), ("T2", {"size": 5})])
        assert (large.request.memory_b, large.number_of_retries) == (99 * MIB, 1)

    def test_without_such_it_is_the_very_same(self) -> None:
        profile = profile_of("requestMemory: 5")
        assert profile.settings_of([("T1", {}), ("T2", {})]) is profile.settings


amounts = st.none() | st.integers(1, 2**40)
requests = st.builds(
    Request,
    cpus=st.integers(1, 128),
    memory_b=amounts,
    disk_b=amounts,
    walltime_s=st.none() | st.integers(1, 10**6),
    resources=st.dictionaries(st.sampled_from(["gpu", "license"]), st.integers(0, 9)),
)
multipliers = st.none() | st.sampled_from([1.5, 2.0, 4.0])


@st.composite
def kinds(draw: st.DrawFn) -> TaskGroup:
    multiplier = draw(multipliers)
    settings = JobSettings(
        label="T",
        request=draw(requests),
        number_of_retries=draw(st.integers(0, 9)),
        attributes={} if multiplier is None else {"memoryMultiplier": multiplier},
    )
    return TaskGroup(label="T", settings=settings, tasks=draw(st.integers(1, 5)), origins={})


@given(st.lists(kinds(), min_size=1, max_size=5), st.randoms())
def test_the_order_of_labels_does_not_matter(parts: Sequence[TaskGroup], random: Any) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)
    assert combine_settings("X", "X", parts) == combine_settings("X", "X", shuffled)


@given(st.lists(kinds(), min_size=1, max_size=5))
def test_a_job_can_do_what_each_of_its_tasks_can(parts: Sequence[TaskGroup]) -> None:
    job = combine_settings("X", "X", parts)
    for part in parts:
        asked = part.settings.request
        assert job.request.cpus >= asked.cpus
        assert asked.memory_b is None or (job.request.memory_b or 0) >= asked.memory_b
        assert asked.disk_b is None or (job.request.disk_b or 0) >= asked.disk_b * part.tasks
        assert asked.walltime_s is None or (job.request.walltime_s or 0) >= asked.walltime_s * part.tasks
        assert all(job.request.resources[name] >= amount for name, amount in asked.resources.items())
    assert any(
        (part.settings.request.memory_b, part.settings.number_of_retries)
        == (job.request.memory_b, job.number_of_retries)
        for part in parts
    )


@given(kinds(), st.integers(1, 4), st.integers(1, 4))
def test_tasks_can_be_counted_in_any_portions(part: TaskGroup, one: int, two: int) -> None:
    split = [TaskGroup(label="T", settings=part.settings, tasks=number, origins={}) for number in (one, two)]
    whole = TaskGroup(label="T", settings=part.settings, tasks=one + two, origins={})
    assert combine_settings("X", "X", split) == combine_settings("X", "X", [whole])
