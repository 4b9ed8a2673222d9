"""Jobs inherit variables by a site's rule, by default without secrets and schedulers' variables."""

from __future__ import annotations

import pytest

from longshore.sites.inherited_environment import InheritRule, is_excluded, select_inherited


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN", "TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DB_PASSWORD", "PGPASSWORD", "MY_PASSWD",
        "GOOGLE_APPLICATION_CREDENTIALS", "OPENAI_API_KEY", "APIKEY", "SSH_PRIVATE_KEY", "secret", "NPM_TOKENS",
        "SLURM_JOB_ID", "SBATCH_PARTITION", "PBS_NODEFILE", "SGE_TASK_ID", "LSB_JOBID", "LSF_ENVDIR", "_CONDOR_SLOT",
        "JOB_ID", "PE_HOSTFILE", "NSLOTS",
    ],
)  # fmt: skip
def test_secrets_and_scheduler_variables_are_excluded(name: str) -> None:
    assert is_excluded(name)


@pytest.mark.parametrize(
    "name",
    [
        "HOME", "PATH", "TOKENIZERS_PARALLELISM", "BEARER_TOKEN_FILE", "AWS_SHARED_CREDENTIALS_FILE", "KEYBOARD",
        "SSH_AUTH_SOCK", "LSST_LIBRARY_PATH", "MY_JOB_ID", "SLURMY", "X509_USER_PROXY", "LS_COLORS", "CONDOR_CONFIG",
    ],
)  # fmt: skip
def test_ordinary_variables_are_inherited(name: str) -> None:
    assert not is_excluded(name)


NAMES = ["HOME", "PATH", "FOO", "FOO_TOKEN", "SLURM_JOB_ID", "BAR"]


@pytest.mark.parametrize(
    ("rule", "kept", "left_out"),
    [
        ("all", {"HOME", "PATH", "FOO", "BAR"}, ["FOO_TOKEN", "SLURM_JOB_ID"]),
        ("none", {"HOME", "PATH"}, []),
        (["FOO*"], {"FOO"}, ["FOO_TOKEN"]),
        (["FOO*", "FOO_TOKEN"], {"FOO", "FOO_TOKEN"}, []),
        (["*", "SLURM_*"], {"HOME", "PATH", "FOO", "BAR", "SLURM_JOB_ID"}, ["FOO_TOKEN"]),
        ([], set(), []),
    ],
)
def test_rules(rule: InheritRule, kept: set[str], left_out: list[str]) -> None:
    assert select_inherited(NAMES, rule) == (kept, left_out)
