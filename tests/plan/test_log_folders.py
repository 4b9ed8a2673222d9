"""Log paths follow ``subDirTemplate`` and stay in the run directory."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import log_path
from longshore.errors import ConfigError
from longshore.jobs.commands import attempt_log_path
from longshore.model.tasks import Scalar


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("", "logs/isr/00/isr_1.2.log"),
        ("{label}/{tract}/{visit}/{exposure}", "logs/isr/101/isr_1.2.log"),
        ("{visit:06}/{band}", "logs/000101/r_i/isr_1.2.log"),
        ("by-{band}-{nothing}", "logs/by-r_i-/isr_1.2.log"),
        ("/{jobName}/../{jobLabel}/./", "logs/isr_1/isr/isr_1.2.log"),
        ("{tract}", "logs/_/isr_1.2.log"),
    ],
)
def test_a_template_says_where(template: str, path: str) -> None:
    assert attempt_log_path(template, 7, "isr_1", "isr", 2, tags={"visit": 101, "band": "r/i"}) == path


def test_a_value_that_does_not_suit_its_format() -> None:
    with pytest.raises(ConfigError):
        attempt_log_path("{band:d}", 0, "a", "a", 1, tags={"band": "r"})


@given(st.dictionaries(st.sampled_from(["visit", "band", "label"]), st.one_of(st.integers(), st.text())), st.text())
def test_log_path_stays_below_the_log_folder_for_any_values(tags: dict[str, Scalar], name: str) -> None:
    path = PurePosixPath(attempt_log_path("{visit}/x{band}/{label}", 3, name, name, 1, tags=tags))
    assert path.parts[0] == "logs"
    assert not {"..", "."} & set(path.parts)
    assert len(path.parts) <= 5
    assert path.name == PurePosixPath(log_path(3, name, name, 1)).name
