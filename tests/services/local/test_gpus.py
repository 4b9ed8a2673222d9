"""Which GPUs there are: as the configuration names them, the environment shows them, or the drivers have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.services.local.executor import LocalExecutor
from longshore.services.local.machine import detected_gpus, named_members


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, ("2", "3")),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8f, MIG-1/2/3"}, ("GPU-8f", "MIG-1/2/3")),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, ("1",)),
        ({"HIP_VISIBLE_DEVICES": "1"}, ("1",)),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, ("0", "1")),
        ({}, ()),
    ],
)
def test_the_environment_says_which(env: dict[str, str], expected: tuple[str, ...], tmp_path: Path) -> None:
    assert detected_gpus(env, root=tmp_path) == expected


def test_the_driver_of_nvidia_has_a_file_for_each(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).touch()
    assert detected_gpus({}, root=tmp_path) == ("0", "1")


def test_the_driver_of_amd_has_a_folder_for_each_and_for_the_processor(tmp_path: Path) -> None:
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for name, count in (("0", 0), ("1", 256), ("2", 256)):
        (nodes / name).mkdir(parents=True)
        (nodes / name / "properties").write_text(f"cpu_cores_count 8\nsimd_count {count}\nmem_banks_count 1\n", "utf-8")
    assert detected_gpus({}, root=tmp_path) == ("0", "1")


@pytest.mark.parametrize(
    ("pool", "env", "expected"),
    [
        ({"gpus": 2}, {}, {"gpus": ("0", "1")}),
        ({"gpus": 2}, {"CUDA_VISIBLE_DEVICES": "3,5,7"}, {"gpus": ("3", "5")}),
        ({"gpus": 2}, {"CUDA_VISIBLE_DEVICES": "3"}, {"gpus": ("0", "1")}),
        ({"gpus": ["0", "3"]}, {"CUDA_VISIBLE_DEVICES": "3"}, {"gpus": ("0", "3")}),
        ({"gpu": 1}, {"CUDA_VISIBLE_DEVICES": "3"}, {"gpu": ("3",)}),
        ({"gpus": 0}, {"CUDA_VISIBLE_DEVICES": "3"}, {"gpus": ()}),
        ({"cpus": 4, "licence": 2, "boards": ["left", "right"]}, {}, {"boards": ("left", "right")}),
        ({"cpus": 4}, {"CUDA_VISIBLE_DEVICES": "3"}, {"gpus": ("3",)}),
    ],
)
def test_what_the_configuration_names_wins(
    pool: dict[str, int | list[str]], env: dict[str, str], expected: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    assert named_members(pool, env, root=tmp_path) == expected


def test_the_probe_counts_and_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    report = LocalExecutor({"pool": {"cpus": 3, "boards": ["left"]}}).probe()
    assert report.capacity
    assert (report.capacity["gpus"], report.capacity["boards"]) == (2, 1)
    assert report.identities == {"boards": ("left",), "gpus": ("2", "3")}
    assert report.details["gpus"] == "2 (2, 3)"
