"""The service `minikit`: the kit of batch systems, and minibatch's dialect."""

from __future__ import annotations

from longshore.contract.service import ServiceTraits
from longshore.services.batch.service import BatchService
from longshore_minibatch.kit.dialect import MinibatchDialect


class MinikitService(BatchService):
    """The batch system minibatch, through the kit."""

    name = "minikit"
    dialect = MinibatchDialect
    traits = ServiceTraits(runs_on_submit_host=True, required_variables=MinibatchDialect.variables.required)
