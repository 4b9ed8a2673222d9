"""The service `minikit`: the kit of batch systems, and minibatch's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longshore.batch.service import BatchService
from longshore.contract.service import ServiceTraits
from longshore_minibatch.kit.dialect import MinibatchDialect


class MinikitService(BatchService):
    """The batch system minibatch, through the kit."""

    name = "minikit"
    traits = ServiceTraits(runs_on_submit_host=True, required_variables=MinibatchDialect.variables.required)

    def dialect(self, own: Mapping[str, Any]) -> MinibatchDialect:
        """Return the dialect for a site."""
        return MinibatchDialect(own)
