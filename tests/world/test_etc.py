"""What is shipped is found."""

from __future__ import annotations

import os

from longshore.world.etc import shipped, template_texts


def test_defaults_and_programs_are_there() -> None:
    assert shipped("etc", "defaults.yaml").is_file()
    assert shipped("etc", "wms", "local.yaml").is_file()
    assert os.access(shipped("bin", "longshore-job"), os.X_OK)


def test_templates_are_named_without_their_suffix() -> None:
    texts = template_texts("local")
    assert set(texts) == {"run-job"}
    assert texts["run-job"].startswith("#!/bin/sh\n")


def test_a_service_without_templates_has_none() -> None:
    assert template_texts("no-such-service") == {}
