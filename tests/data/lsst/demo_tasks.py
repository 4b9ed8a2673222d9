"""Three tiny but real tasks for LSST's pipelines, which need no packages but those of the extra `lsst`."""

from __future__ import annotations

import time
from typing import Any

import lsst.pipe.base as pb
from lsst.pex.config import Field
from lsst.pipe.base.connectionTypes import Input, Output

PLAIN = "StructuredDataDict"
"""Storage class of a dict that is kept as YAML."""
PER_DETECTOR = ("instrument", "visit", "detector")
PER_PATCH = ("skymap", "tract", "patch", "band")


class IsrConnections(pb.PipelineTaskConnections, dimensions=PER_DETECTOR):
    """What IsrTask reads and writes."""

    raw = Input(name="demo_raw", storageClass=PLAIN, dimensions=PER_DETECTOR, doc="A raw value.")
    out = Output(name="demo_postISR", storageClass=PLAIN, dimensions=PER_DETECTOR, doc="Its double.")


class IsrConfig(pb.PipelineTaskConfig, pipelineConnections=IsrConnections):
    """Failures and durations on request."""

    failVisit = Field(dtype=int, default=-1, doc="A visit at which to fail.")
    unlessThere = Field(dtype=str, default="", doc="A file; where it is there, nothing fails.")
    sleep = Field(dtype=float, default=0.0, doc="Seconds to sleep.")


class IsrTask(pb.PipelineTask):
    """Doubles a value, or fails if it is told to."""

    ConfigClass = IsrConfig
    _DefaultName = "isr"

    def runQuantum(self, butlerQC: Any, inputRefs: Any, outputRefs: Any) -> None:
        """Read, double, write."""
        raw = butlerQC.get(inputRefs.raw)
        if inputRefs.raw.dataId["visit"] == self.config.failVisit and not self._may_pass():
            raise RuntimeError("configured to fail")
        time.sleep(self.config.sleep)
        butlerQC.put({"value": raw["value"] * 2}, outputRefs.out)

    def _may_pass(self) -> bool:
        from pathlib import Path

        return bool(self.config.unlessThere) and Path(self.config.unlessThere).exists()


class CalibConnections(pb.PipelineTaskConnections, dimensions=PER_DETECTOR):
    """What CalibTask reads and writes."""

    inp = Input(name="demo_postISR", storageClass=PLAIN, dimensions=PER_DETECTOR, doc="A doubled value.")
    out = Output(name="demo_calexp", storageClass=PLAIN, dimensions=PER_DETECTOR, doc="One more than it.")


class CalibConfig(pb.PipelineTaskConfig, pipelineConnections=CalibConnections):
    """Nothing."""


class CalibTask(pb.PipelineTask):
    """Adds one."""

    ConfigClass = CalibConfig
    _DefaultName = "calib"

    def runQuantum(self, butlerQC: Any, inputRefs: Any, outputRefs: Any) -> None:
        """Read, add, write."""
        butlerQC.put({"value": butlerQC.get(inputRefs.inp)["value"] + 1}, outputRefs.out)


class CoaddConnections(pb.PipelineTaskConnections, dimensions=PER_PATCH):
    """What CoaddTask reads and writes."""

    inp = Input(name="demo_calexp", storageClass=PLAIN, dimensions=PER_DETECTOR, multiple=True, doc="All values.")
    out = Output(name="demo_coadd", storageClass=PLAIN, dimensions=PER_PATCH, doc="Their sum and number.")


class CoaddConfig(pb.PipelineTaskConfig, pipelineConnections=CoaddConnections):
    """Nothing."""


class CoaddTask(pb.PipelineTask):
    """Adds up what overlaps a patch."""

    ConfigClass = CoaddConfig
    _DefaultName = "coadd"

    def runQuantum(self, butlerQC: Any, inputRefs: Any, outputRefs: Any) -> None:
        """Read all, add up, write."""
        values = [butlerQC.get(ref)["value"] for ref in inputRefs.inp]
        butlerQC.put({"sum": sum(values), "n": len(values)}, outputRefs.out)
