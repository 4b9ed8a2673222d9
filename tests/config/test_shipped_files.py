"""What is shipped is found."""

from __future__ import annotations

import os

from longshore.config.plugins import shipped_path


def test_defaults_and_programs_are_shipped() -> None:
    assert shipped_path("etc", "defaults.yaml").is_file()
    assert os.access(shipped_path("bin", "longshore-job"), os.X_OK)
