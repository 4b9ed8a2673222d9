"""Longshore as a plug-in of LSST's BPS, small because it only says what is missing where BPS is not installed.

``wmsServiceClass: longshore.bps.LongshoreService`` lets the command ``bps`` run workflows on Longshore's services. This
package needs ``lsst-ctrl-bps`` (the extra ``bps``), and nothing else of Longshore imports it.
"""

from __future__ import annotations

try:
    import lsst.ctrl.bps  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"longshore.bps needs LSST's package ctrl_bps ({error}). Set up a release of LSST's software, or install it "
        "from PyPI: pip install 'longshore[bps]'",
        name=error.name,
    ) from error

from longshore.bps.service import LongshoreService

__all__ = ["LongshoreService"]
