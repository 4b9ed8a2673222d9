"""Each capability of the contract has one conformance class, and a test class that lacks one fails."""

from __future__ import annotations

import inspect

import pytest

from longshore.contract import capabilities, executor
from longshore.contract.capabilities import Cancellable, LivenessProbe, LogLocator
from longshore.testing.conformance import executor as executor_conformance
from longshore.testing.conformance import service
from longshore.testing.conformance.executor import ExecutorConformance, assert_capabilities_are_covered
from longshore.testing.conformance.service import CancellableConformance, LivenessProbeConformance


@pytest.mark.parametrize(
    ("contract", "conformance", "others"),
    [
        (capabilities, (service,), {LogLocator}),
        (executor, (executor_conformance,), {executor.Executor}),
    ],
)
def test_each_capability_has_one_conformance_class(
    contract: object, conformance: tuple[object, ...], others: set[type]
) -> None:
    abstract = {
        kind
        for _, kind in inspect.getmembers(contract, inspect.isclass)
        if kind.__module__ == contract.__name__ and inspect.isabstract(kind)  # type: ignore[attr-defined]
    }
    covered = {
        name: vars(kind)["capability"]
        for module in conformance
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if "capability" in vars(kind) and kind.__module__ == module.__name__  # type: ignore[attr-defined]
    }
    assert covered == {f"{kind.__name__}Conformance": kind for kind in abstract - others}


def test_a_test_class_without_a_capability_of_its_service_fails() -> None:
    class Service(Cancellable, LivenessProbe):
        pass

    class Tests(CancellableConformance):
        pass

    class AllTests(Tests, LivenessProbeConformance):
        pass

    with pytest.raises(AssertionError, match="must also derive from LivenessProbeConformance"):
        assert_capabilities_are_covered(Tests, Service)
    with pytest.raises(AssertionError, match="lacks the capabilities of CancellableConformance"):
        assert_capabilities_are_covered(AllTests, LivenessProbe)
    assert_capabilities_are_covered(AllTests, Service)


def test_an_executor_needs_no_capability() -> None:
    assert_capabilities_are_covered(ExecutorConformance, executor.Executor)
