"""Environment variables tell a job its resources."""

from __future__ import annotations

from longshore.jobs.commands import THREAD_VARIABLES, identity_variables, thread_variables


def test_libraries_are_held_to_the_processors_of_the_job() -> None:
    variables = thread_variables(3)
    assert variables["OMP_NUM_THREADS"] == variables["OPENBLAS_NUM_THREADS"] == variables["MKL_NUM_THREADS"] == "3"
    assert set(variables) == set(THREAD_VARIABLES)


def test_gpus_are_named_for_cuda_and_hip_and_others_for_the_job_alone() -> None:
    assert identity_variables({"gpus": ("0", "3"), "test-boards": ("left",)}) == {
        "LONGSHORE_JOB_RESOURCE_GPUS_IDS": "0,3",
        "CUDA_VISIBLE_DEVICES": "0,3",
        "HIP_VISIBLE_DEVICES": "0,3",
        "LONGSHORE_JOB_RESOURCE_TEST_BOARDS_IDS": "left",
    }
    assert identity_variables({}) == {}
