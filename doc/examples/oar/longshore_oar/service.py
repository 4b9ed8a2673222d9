"""The service `oar`: the kit of batch systems, and OAR's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longshore.batch.service import BatchService
from longshore.contract.service import ServiceTraits
from longshore_oar.dialect import OarDialect


class OarService(BatchService):
    """The batch system OAR."""

    name = "oar"
    traits = ServiceTraits(required_variables=OarDialect.variables.required)

    def dialect(self, own: Mapping[str, Any]) -> OarDialect:
        """Return the dialect for a site."""
        return OarDialect(own)
