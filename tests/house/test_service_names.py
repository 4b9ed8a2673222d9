"""No module but those of services names a service: what the core must know of one, the contract says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.config.plugins import SERVICES, built_in_plugins

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "longshore"
OTHERS = sorted(path for path in PACKAGE.rglob("*.py") if "services" not in path.relative_to(PACKAGE).parts)

ENGLISH = {"local"}
"""Names of services that are words of English too: they are looked for in strings alone."""
SYSTEMS = {name for name in built_in_plugins(SERVICES) if "." not in name} - ENGLISH | {"condor", "dagman", "sbatch"}
_SHORT = 3
"""Letters up to which a name is also a part of other words."""
SYSTEM = re.compile(
    "|".join(rf"\b{name}\b" if len(name) <= _SHORT else name for name in sorted(SYSTEMS)), re.IGNORECASE
)
LOCAL = re.compile(rf"\b({'|'.join(sorted(ENGLISH))})\b")

EXCEPTIONS = {
    "plan/site_choice.py": "the value of `fallback`, which is this machine's site in the configuration language",
    "cli/error_text.py": "commands of other programs, which users type by habit",
    "cli/completion.py": "`local` is a keyword of the shell",
    "cli/checks.py": "an example in the help, which users can run anywhere",
    "cli/site.py": "an example in the help, which users can run anywhere",
    "cli/options.py": "the option `--local`, which runs on this machine",
    "config/retries.py": "buildtest's keys name Slurm, and belong to the configuration language",
    "graphs/placeholders.py": "`local` is a keyword of the shell",
    "jobs/commands.py": "`local` is a keyword of the shell",
    "sites/inherited_environment.py": "variables that schedulers set, also those that have no service here",
    "config/keys.py": "the groups of services that use a key",
    "config/core_keys.py": "defaults and examples of keys that choose a service",
    "config/site_keys.py": "what a service that transfers files is, in a description",
    "config/layers.py": "an example of `--set` in a hint, where `local` is a site",
    "rundir/registry.py": "`~/.local/state` is a folder of the XDG specification",
}


def service_names(text: str) -> Iterator[str]:
    """Each line that names a workload manager, and each string with the name of a service that is a word."""
    for number, line in enumerate(text.splitlines(), 1):
        if SYSTEM.search(line):
            yield f"{number}: {line.strip()}"
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in prose and isinstance(node.value, str):
            yield from (f"{node.lineno}: {line.strip()}" for line in node.value.splitlines() if LOCAL.search(line))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 'local'", True),
        ("x = f'--wms-service-class local {y}'", True),
        ("import longshore.services.slurm", True),
        ("# DAGMan does it", True),
        ("'''The local file system.'''\nlocal = 1  # a local name", False),
    ],
)
def test_a_name_is_seen(text: str, *, found: bool) -> None:
    assert bool(list(service_names(text))) is found


def test_no_module_outside_of_services_names_a_service() -> None:
    found = {str(path.relative_to(PACKAGE)): list(service_names(path.read_text("utf-8"))) for path in OTHERS}
    assert {name: lines for name, lines in found.items() if lines and name not in EXCEPTIONS} == {}


def test_every_exception_is_needed() -> None:
    assert [name for name in EXCEPTIONS if not list(service_names((PACKAGE / name).read_text("utf-8")))] == []
