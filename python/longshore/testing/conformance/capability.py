"""Coverage of capabilities: each capability of a service or executor needs its conformance class in the test class."""

from __future__ import annotations

from longshore.contract import capabilities, executor

_MODULES = (capabilities.__name__, executor.__name__)


def capabilities_of(kind: type) -> set[type]:
    """Return the capabilities that a service or executor derives from."""
    return {parent for parent in kind.__mro__ if parent.__module__ in _MODULES} - {executor.Executor}


def covered_capabilities(test_class: type) -> set[type]:
    """Return the capabilities whose conformance classes a test class derives from."""
    return {vars(parent)["capability"] for parent in test_class.__mro__ if "capability" in vars(parent)}


def assert_capabilities_are_covered(test_class: type, kind: type) -> None:
    """Check that a test class has the conformance class of each capability, and no other."""
    there, covered = capabilities_of(kind), covered_capabilities(test_class)
    missing = sorted(f"{each.__name__}Conformance" for each in there - covered)
    assert not missing, f"'{test_class.__name__}' must also derive from {', '.join(missing)}"
    wrong = sorted(f"{each.__name__}Conformance" for each in covered - there)
    assert not wrong, f"'{kind.__name__}' lacks the capabilities of {', '.join(wrong)}"
