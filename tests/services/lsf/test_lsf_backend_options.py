"""Options of bsub in one string, and the keys that they stand for."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.errors import ConfigError, OptionHelpRequest
from longshore.services.lsf.options import BACKEND_HELP, JOB_NAMES, backend_options


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("-q long", {"queue": "long"}),
        (
            "-n 4 -M 4096 -W 90 -P mine",
            {
                "requestCpus": "4",
                "requestMemory": "4096",
                "requestWalltime": 5400,
                "accountingGroup": "mine",
            },
        ),
        ("-W 1:30/hosta", {"requestWalltime": 5400}),
        ("-gpu 'num=2:mode=shared'", {"bsub": ["-gpu num=2:mode=shared"]}),
        ("-q a -q b", {"queue": "b"}),
        ("-R 'select[mem>1]' -R 'rusage[a=1]'", {"lsf": {"resource": ["select[mem>1]", "rusage[a=1]"]}}),
        (
            "-x -r -sp 5 -app small -sla s -G g -m 'h1 h2'",
            {
                "lsf": {
                    "exclusive": True,
                    "requeue": True,
                    "priority": 5,
                    "application": "small",
                    "serviceClass": "s",
                    "userGroup": "g",
                    "hosts": "h1 h2",
                }
            },
        ),
    ],
)
def test_keys_of_options(text: str, values: dict[str, Any]) -> None:
    assert backend_options(text) == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-J name", "there is no option '-J' of the back end"),
        ("-nnodes 2", "there is no option '-nnodes' of the back end"),
        ("-qlong", "there is no option '-qlong' of the back end"),
        ("long", "there is no option 'long' of the back end"),
        ("-q", "the option '-q' of the back end needs a value"),
        ("-W soon", "must be [HOURS:]MINUTES, not 'soon'"),
        ("-sp high", "must be a whole number, not 'high'"),
        ("-q a : -q b", "a job of LSF has no components"),
        ("-q 'a", "cannot be split into words"),
    ],
)
def test_wrong_options(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        backend_options(text)
    assert words in raised.value.message


@pytest.mark.parametrize("text", ["-h", "--help", "-q long -h"])
def test_help_names_every_option(text: str) -> None:
    with pytest.raises(OptionHelpRequest) as raised:
        backend_options(text)
    assert str(raised.value) == BACKEND_HELP
    assert all(
        f" {option} " in BACKEND_HELP for option in ("-q", "-n", "-M", "-W", "-gpu", *set(JOB_NAMES.values()) - {"-P"})
    )
