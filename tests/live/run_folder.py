"""A run directory with what an executor of a batch system needs, made without a submission."""

from __future__ import annotations

import shutil
from pathlib import Path

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.service import RunPaths, WmsService
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.submission import RunIdentity
from longshore.rundir.run_directory import write_card
from longshore.services.batch.records import BATCH_TEMPLATE


def make_run_folder(folder: Path, service: type[WmsService], name: str) -> RunPaths:
    """Make the directory of a run on a service of that name."""
    paths = RunPaths(folder / "a run")
    paths.wms.mkdir(parents=True)
    (paths.root / BATCH_TEMPLATE).write_text(template_texts(service)["batch.sh"], "utf-8")
    shutil.copy(shipped_path("bin", "longshore-job"), paths.root / WRAPPER)
    card = RunIdentity(
        format=1, id="k1", name="n", service=name, longshore="1", created_at=0, expected=0, labels={},
        key=folder.name[-6:],
    )  # fmt: skip
    write_card(paths, card)
    return paths
