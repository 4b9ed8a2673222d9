"""Makes a real Butler repository (SQLite, files) with a sky, an instrument, and raw values.

python make_repo.py REPO [VISITS=3] [DETECTORS=4]
"""

from __future__ import annotations

import sys

from lsst.daf.butler import Butler, CollectionType, DatasetType
from lsst.sphgeom import ConvexPolygon, LonLat, UnitVector3d

CAMERA = {"instrument": "DemoCam"}
SKY = {"skymap": "demosky", "tract": 0}
DAY = 20250101


def box(west: float, south: float, east: float, north: float) -> ConvexPolygon:
    """A region of the sky between two corners, in degrees."""
    corners = ((west, south), (east, south), (east, north), (west, north))
    return ConvexPolygon([UnitVector3d(LonLat.fromDegrees(*corner)) for corner in corners])


def make_repo(repo: str, visits: int, detectors: int) -> None:
    """Make the repository: all visits look at the same two patches, each detector at a strip of them."""
    Butler.makeRepo(repo)
    butler = Butler.from_config(repo, writeable=True)
    _insert_camera(butler.registry, detectors)
    _insert_sky(butler.registry)
    for visit in range(1, visits + 1):
        _insert_visit(butler.registry, visit, detectors)
    raw = DatasetType("demo_raw", ("instrument", "visit", "detector"), "StructuredDataDict", universe=butler.dimensions)
    butler.registry.registerDatasetType(raw)
    butler.collections.register("DemoCam/raw/all", CollectionType.RUN)
    for visit in range(1, visits + 1):
        for detector in range(detectors):
            value = {"value": 100 * visit + detector}
            butler.put(value, raw, **CAMERA, visit=visit, detector=detector, run="DemoCam/raw/all")


def _insert_camera(registry: object, detectors: int) -> None:
    insert = registry.insertDimensionData
    most = {"visit_max": 10**6, "exposure_max": 10**6, "detector_max": 100}
    insert("instrument", {"name": "DemoCam", "class_name": "lsst.pipe.base.Instrument", **most})
    insert("day_obs", {**CAMERA, "id": DAY})
    insert("physical_filter", {**CAMERA, "name": "Demo-r", "band": "r"})
    named = [{**CAMERA, "id": each, "full_name": f"D{each}", "purpose": "SCIENCE"} for each in range(detectors)]
    insert("detector", *named)


def _insert_sky(registry: object) -> None:
    most = {"tract_max": 10, "patch_nx_max": 2, "patch_ny_max": 2}
    registry.insertDimensionData("skymap", {"name": "demosky", "hash": b"x" * 20, **most})
    registry.insertDimensionData("tract", {"skymap": "demosky", "id": 0, "region": box(10, 10, 10.4, 10.1)})
    for patch in range(2):
        region = box(10 + 0.2 * patch, 10, 10.2 + 0.2 * patch, 10.1)
        registry.insertDimensionData("patch", {**SKY, "id": patch, "cell_x": patch, "cell_y": 0, "region": region})


def _insert_visit(registry: object, visit: int, detectors: int) -> None:
    about = {"name": str(visit), "physical_filter": "Demo-r", "day_obs": DAY, "exposure_time": 30.0}
    region = box(10.001, 10.001, 10.399, 10.099)
    registry.insertDimensionData("visit", {**CAMERA, "id": visit, **about, "region": region})
    width = 0.4 / detectors
    for detector in range(detectors):
        west = 10 + width * detector
        strip = box(west + width * 0.1, 10.01, west + width * 0.9, 10.09)
        key = {**CAMERA, "visit": visit, "detector": detector}
        registry.insertDimensionData("visit_detector_region", {**key, "region": strip})


if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[2:4]]
    make_repo(sys.argv[1], *(counts + [3, 4][len(counts) :]))
