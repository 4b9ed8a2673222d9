"""The sections of ``cluster`` as rules, and what is wrong with them said with its place."""

from __future__ import annotations

import pytest

from longshore.config.interpolate import DEFAULT_SCOPE
from longshore.config.merge import LayerRank, make_layer, merge_layers
from longshore.config.search import Config
from longshore.config.select import parse_cluster_rules
from longshore.contract.algorithms import ClusterRule, Partition, Start
from longshore.errors import ConfigError


def rules(cluster: object, **root: object) -> tuple[ClusterRule, ...]:
    layer = make_layer({"cluster": cluster, **root}, "run.yaml", LayerRank.USER)
    return parse_cluster_rules(Config(merge_layers([layer])), DEFAULT_SCOPE, frozenset({"visit", "detector"}))


def test_a_section_is_a_rule() -> None:
    (rule,) = rules(
        {
            "cl": {
                "pipetasks": "isr, {more} ,",
                "dimensions": "visit, detector",
                "equalDimensions": "visit:exposure, group : visit",
                "clusterTemplate": "{kind}_{visit}_{label}",
                "findDependencyMethod": "sink",
                "requestMemory": 10,
            },
            "isr": {"requestMemory": 5},
            "other": "text",
        },
        more="flat",
        kind="k",
        visit="of the configuration",
    )
    assert (rule.label, rule.tasks, rule.dimensions) == ("cl", ("isr", "flat"), ("visit", "detector"))
    assert rule.equal == {"visit": ("exposure", "group"), "exposure": ("visit",), "group": ("visit",)}
    assert (rule.template, rule.start, rule.partition) == ("k_{visit}_{label}", Start.SINK, None)
    assert rule.origin is not None


def test_without_sections_there_are_no_rules() -> None:
    assert rules({}) == ()
    assert rules(None) == ()


@pytest.mark.parametrize(
    ("key", "most", "partition"),
    [
        ("partitionMaxClusters", 7, Partition(dimensions=("visit",), most_clusters=7)),
        ("partitionMaxSize", "{size}", Partition(dimensions=("visit",), most_values=3)),
    ],
)
def test_parts(key: str, most: object, partition: Partition) -> None:
    (rule,) = rules({"cl": {"pipetasks": "a", "partitionDimensions": "visit", key: most}}, size=3)
    assert rule.partition == partition


@pytest.mark.parametrize(
    ("cluster", "words", "hint"),
    [
        (
            {"one": {"pipetasks": "a, b"}, "two": {"pipetasks": "c, b"}},
            "the label 'b' is in the clusters 'one' and 'two'",
            "A task runs in one job",
        ),
        (
            {"one": {"pipetasks": "a", "equalDimensions": "visit-exposure"}},
            "'cluster.one.equalDimensions' has 'visit-exposure', which is no pair of dimensions",
            "visit:exposure",
        ),
        (
            {"one": {"pipetasks": "a", "findDependencyMethod": "sinks"}},
            "'cluster.one.findDependencyMethod' must be 'source' or 'sink', not 'sinks'",
            "Did you mean 'sink'?",
        ),
        (
            {"one": {"pipetasks": "a", "partitionDimensions": "visit"}},
            "'cluster.one.partitionDimensions' cuts clusters into parts, and nothing says into how many parts",
            "Give either 'partitionMaxClusters' or 'partitionMaxSize'.",
        ),
        (
            {
                "one": {
                    "pipetasks": "a",
                    "partitionDimensions": "visit",
                    "partitionMaxSize": 2,
                    "partitionMaxClusters": 2,
                }
            },
            "and two keys say into how many parts",
            "Give either",
        ),
        (
            {"one": {"pipetasks": "a", "partitionDimensions": "visit", "partitionMaxSize": 0}},
            "'cluster.one.partitionMaxSize' must be",
            "",
        ),
        ({"one": {"pipetasks": ["a"]}}, "'cluster.one.pipetasks' must be text", ""),
    ],
)
def test_rows_37_and_44_what_is_wrong_is_said_with_its_place(cluster: object, words: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules(cluster)
    assert words in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.origin is not None
