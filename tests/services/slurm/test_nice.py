"""Moments become nice values by the formula of open-lmake's page; the worked values are held."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.services.slurm.options import MOST, NiceScale, scale

ETA = datetime(2026, 11, 20, 12, 0).timestamp()  # noqa: DTZ001 - the origin is local time too


@pytest.mark.parametrize(
    ("pressure", "nice"),
    [(0, 122644800), (60, 122644740), (600, 122644200), (3600, 122641200), (7200, 122637600)],
)
def test_worked_values(pressure: float, nice: int) -> None:
    assert scale({}).nice(ETA, pressure) == nice


def test_values_a_second_apart_differ() -> None:
    # With single precision they would not: 122644803 and 122644805 are 8 s apart there.
    assert [scale({}).nice(ETA + second, 0) for second in (3, 4, 5)] == [122644803, 122644804, 122644805]


@given(st.floats(-1e12, 1e12), st.floats(0, 1e9), st.floats(1e-6, 1e6))
def test_values_are_what_sbatch_takes_and_fall_with_pressure(eta: float, pressure: float, factor: float) -> None:
    executor_settings = NiceScale(origin=0.0, factor=factor)
    nice = executor_settings.nice(eta, pressure)
    assert 0 <= nice <= MOST
    assert executor_settings.nice(eta, pressure + 10) <= nice


def test_what_the_site_says_wins_over_the_cluster() -> None:
    of_cluster = "nice_factor=2.5,time_origin=2024-01-01 00:00:00,other=1"
    assert scale({}, of_cluster).factor == 2.5
    assert scale({}, "time_origin=2024-01-01 00:00:00,nice_factor=2.5") == scale({}, of_cluster)
    assert scale({"nice_factor": 4}, of_cluster).factor == 4.0
    assert scale({"time_origin": "2024-01-01 00:00:00 +01:00"}).origin == 1704063600.0


@pytest.mark.parametrize(
    "said", [{"nice_factor": "x"}, {"nice_factor": 0}, {"time_origin": "soon"}, {"time_origin": "2024-13-01 00:00"}]
)
def test_what_cannot_be_understood_is_said(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(said))):
        scale(said)
