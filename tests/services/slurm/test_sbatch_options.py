"""What a job asks for becomes options of sbatch, in a fixed order; unknown names, gaps and doubles are refused."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.executor import Batch
from longshore.errors import ConfigError, OptionHelpRequest
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, Request
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.batch.script import raw_options
from longshore.services.batch.script_writer import job_spec
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.options import SbatchOptions
from longshore.services.slurm.options import components as components_of
from longshore.services.slurm.service import BACKEND_HELP, backend_options

EVERYTHING = Request(
    cpus=4, memory_b=3000 * MIB + 1, disk_b=10 * MIB, walltime_s=3601, resources={"gpus": 2, "lic_a": 1, "fpga": 3}
)


def batch(request: Request | None = None, **attributes: str | int) -> Batch:
    return Batch(id="1", tag="t", request=request or Request(), members=(), attributes=attributes)


def components(batch: Batch, settings: Mapping[str, YamlValue]) -> tuple[SbatchOptions, ...]:
    dialect = SlurmDialect({})
    facts = ClusterFacts(licences=("lic_a",))
    return components_of(job_spec(dialect, msgspec.structs.replace(batch, settings=settings), {}, facts))


def options(
    request: Request | None = None, settings: dict[str, YamlValue] | None = None, **attributes: str | int
) -> list[str]:
    (part,) = components(batch(request, **attributes), settings or {})
    return [name if value is None else f"{name}={value}" for name, value in part.pairs()]


def test_a_plain_job_asks_for_a_processor() -> None:
    assert options() == ["cpus-per-task=1"]


def test_everything_a_request_can_say() -> None:
    assert options(EVERYTHING) == [
        "cpus-per-task=4",
        "mem=3001M",
        "tmp=10M",
        "time=61",
        "gres=fpga:3,gpu:2",
        "licenses=lic_a:1",
    ]


def test_features_that_nodes_should_have_do_not_replace_those_that_they_must_have() -> None:
    said = options(settings={"features": ["amd", "ssd"], "prefer": ["fast", "near"]})
    assert said == ["cpus-per-task=1", "constraint=amd&ssd", "prefer=fast&near"]


def test_attributes_that_all_services_know() -> None:
    said = options(queue="short", accountingGroup="astro", mailTo="me@example.org", whenToMail="Complete")
    assert said == [
        "partition=short",
        "account=astro",
        "cpus-per-task=1",
        "mail-user=me@example.org",
        "mail-type=END",
    ]


def test_the_services_own_words_win() -> None:
    own: dict[str, YamlValue] = {
        "partition": "long",
        "qos": "high",
        "reservation": "night",
        "constraint": ["haswell", "ssd"],
        "nodelist": "n[1-2]",
        "excludes": ["n3", "n4"],
        "wckey": "w",
        "gres": "gpu:a100:1",
        "licences": ["lic_b:2"],
        "cpu": 8,
        "mem": "1G",
        "tasks": 4,
        "tasksPerNode": 2,
        "nodeCount": 2,
        "nice": 50,
        "exclusive": True,
    }
    assert options(EVERYTHING, own, queue="short") == [
        "partition=long",
        "qos=high",
        "reservation=night",
        "wckey=w",
        "nodes=2",
        "ntasks=4",
        "ntasks-per-node=2",
        "cpus-per-task=8",
        "mem=1G",
        "tmp=10M",
        "time=61",
        "gres=gpu:a100:1",
        "licenses=lic_a:1,lic_b:2",
        "constraint=haswell&ssd",
        "nodelist=n[1-2]",
        "exclude=n3,n4",
        "exclusive",
        "nice=50",
    ]


def test_a_line_can_be_left_out() -> None:
    assert options(EVERYTHING, {"omit": ["mem", "--gres"]}) == [
        "cpus-per-task=4",
        "tmp=10M",
        "time=61",
        "licenses=lic_a:1",
    ]


def test_components_of_a_heterogeneous_job() -> None:
    own: dict[str, YamlValue] = {"cpu": 1, "gres1": "gpu:1", "mem1": "2G", "partition1": "gpu", "partition": "main"}
    parts = components(batch(Request(walltime_s=60)), own)
    assert [dict(part.pairs()) for part in parts] == [
        {"partition": "main", "cpus-per-task": "1", "time": "1"},
        {"partition": "gpu", "mem": "2G", "time": "1", "gres": "gpu:1"},
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gres2": "gpu:1"}, "says nothing of 1"),
        ({"gres": "gpu:1", "gres0": "gpu:2"}, "mean the same"),
        ({"licence": "a", "licenses": "b"}, "another spelling"),
        ({"partitions": "x"}, "no key 'partitions'"),
        ({"parttion": "x"}, "no key 'parttion'"),
        ({"account1": "x"}, "no key 'account1'"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings: dict[str, YamlValue], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SlurmDialect({}).check_job(settings)


def test_a_misspelling_is_answered_with_the_name_meant() -> None:
    with pytest.raises(ConfigError) as caught:
        SlurmDialect({}).check_job({"parttion": "x"})
    assert "'partition'" in caught.value.hint


def test_raw_lines_keep_their_order_and_lose_their_mark() -> None:
    assert raw_options("#SBATCH", ["-t 00:05", "#SBATCH -C haswell"], None, "-N 1") == (
        "-t 00:05",
        "-C haswell",
        "-N 1",
    )


def test_the_option_table() -> None:
    said = backend_options(
        "-c 4 --mem=2G -C haswell -x n1,n2 --gres gpu:1 -L lic_a:1 -w n3 -pshort -q high --reservation r"
    )
    assert said == {
        "cpu": "4",
        "mem": "2G",
        "features": "haswell",
        "excludes": "n1,n2",
        "gres": "gpu:1",
        "licence": "lic_a:1",
        "nodes": "n3",
        "partition": "short",
        "qos": "high",
        "reserv": "r",
    }


def test_components_in_the_option_table() -> None:
    assert backend_options("-c 1 : -c 4 --gres gpu:1") == {"cpu": "1", "cpu1": "4", "gres1": "gpu:1"}
    assert len(components(batch(), backend_options("-c 1 : -c 4"))) == 2
    with pytest.raises(ConfigError, match="whole job"):
        backend_options("-c 1 : -L lic_a")


def test_help_is_asked_for_or_given() -> None:
    with pytest.raises(OptionHelpRequest):
        backend_options("-c 1 -h")
    with pytest.raises(ConfigError) as caught:
        backend_options("--frobnicate")
    assert caught.value.hint == BACKEND_HELP
    with pytest.raises(ConfigError, match="needs a value"):
        backend_options("-c")
    with pytest.raises(ConfigError, match="split"):
        backend_options("'")


@given(st.text())
def test_any_text_is_options_or_our_error(text: str) -> None:
    try:
        SlurmDialect({}).check_job(backend_options(text))
    except (ConfigError, OptionHelpRequest):
        return
