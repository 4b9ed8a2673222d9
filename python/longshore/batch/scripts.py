"""Place of the template of a batch's script in the run directory."""

from pathlib import PurePosixPath
from typing import Final

TEMPLATE: Final = PurePosixPath("wms", "batch.sh.j2")
