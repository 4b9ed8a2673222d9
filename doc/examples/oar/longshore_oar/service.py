"""The service `oar`: the kit of batch systems, and OAR's dialect."""

from __future__ import annotations

from longshore.contract.service import ServiceTraits
from longshore.services.batch.service import BatchService
from longshore_oar.dialect import OarDialect


class OarService(BatchService):
    """The batch system OAR."""

    name = "oar"
    dialect = OarDialect
    traits = ServiceTraits(required_variables=OarDialect.variables.required)
