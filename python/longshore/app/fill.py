"""Fills the draft of a run directory with all that the run is to remember."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import yaml

from longshore.app.capabilities import log_directories
from longshore.app.configuration import Configuration
from longshore.app.resolved_run import ResolvedRun
from longshore.app.saved import Saved, write_saved
from longshore.config.finaljob import WhenRun, final_commands, when_run
from longshore.config.merge import Node, plain
from longshore.contract.context import RunPaths
from longshore.model.codec import workflow_lines
from longshore.model.job import Job
from longshore.model.workflow import Workflow
from longshore.origin import Origin
from longshore.plan.special import FINAL, FINAL_SCRIPT, final_script
from longshore.world.files import create_file
from longshore.world.rundir import write_rendered


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a run directory is made from.

    Attributes
    ----------
    workflow
        The jobs.
    payload
        The files of the payload, kept with the user's YAML.
    directories
        Folders to make.
    programs
        Text of programs that jobs run, per path.
    copies
        Files that are copied as they are, per path.
    executables
        Which of these paths are to be executable.
    made
        Names of files that are in the run directory already.
    saved
        The graphs between the stages, as far as they are wanted.
    """

    run: ResolvedRun
    workflow: Workflow
    payload: tuple[Path, ...] = ()
    directories: Sequence[str] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, Path] = field(default_factory=dict)
    executables: frozenset[str] = frozenset()
    made: tuple[str, ...] = ()
    saved: Saved = field(default_factory=dict)


def fill(draft: RunPaths, plan: Plan, mark: str) -> None:
    """Write all files of a run but ``run.json``, which has its mark."""
    run, workflow = plan.run, plan.workflow
    configuration = run.configuration
    _write_inputs(draft, plan)
    create_file(config_file(draft, workflow.name), [_effective(configuration).encode()])
    origins = {key: msgspec.to_builtins(origin) for key, origin in origins_of(configuration.config.root)}
    create_file(draft.origins, [msgspec.json.format(msgspec.json.encode(origins), indent=1), b"\n"])
    create_file(draft.workflow, workflow_lines(workflow), durable=True)
    write_saved(draft.root, plan.saved)
    for directory in (*plan.directories, *log_directories(run.service, workflow)):
        (draft.root / directory).mkdir(parents=True, exist_ok=True)
    for name, text in plan.programs.items():
        create_file(_made(draft.root / name), [text.encode()])
    for name, source in plan.copies.items():
        shutil.copy2(source, _made(draft.root / name))
    for name in plan.executables:
        path = draft.root / name
        path.chmod(path.stat().st_mode | 0o111)
    draft.journal.mkdir()
    write_rendered(draft, run.service.render(workflow, msgspec.structs.replace(run.context, mark=mark)))


def config_file(run: RunPaths, name: str) -> Path:
    """The file with the configuration that came of all layers."""
    return run.root / f"{name}_config.yaml"


def origins_of(node: Node, key: str = "") -> Iterator[tuple[str, Origin]]:
    """Where each value below a node was written, by its key."""
    if isinstance(node.value, dict) and node.value:
        for name, below in node.value.items():
            yield from origins_of(below, f"{key}.{name}")
    else:
        yield key.removeprefix("."), node.origin


def _made(path: Path) -> Path:
    """The path, with the folder it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def final_programs(configuration: Configuration, final: Job | None = None) -> dict[str, str]:
    """The script of the final job, if there is one, per path in the run directory.

    Parameters
    ----------
    configuration
        The configuration.
    final
        The job, where it was made already: it may get fewer processors than the configuration asks for.

    Raises
    ------
    ConfigError
        One of its commands is wrong.
    """
    if when_run(configuration.config) is WhenRun.NEVER:
        return {}
    current = {"curr_pipetask": FINAL, "curr_cluster": FINAL, "curr_site": configuration.site}
    arguments = final_arguments(configuration)
    if final is not None:
        current["requestCpus"] = str(final.settings.request.cpus)
    current |= {name: f'"${{{name}}}"' for name, _ in arguments}
    commands = final_commands(configuration.config, current=current, env=configuration.env)
    return {FINAL_SCRIPT: final_script(commands, [name for name, _ in arguments])}


def final_arguments(configuration: Configuration) -> tuple[tuple[str, str], ...]:
    """What the script of the final job is called with for a quantum graph, as in BPS: name and value of each."""
    graph = configuration.text("qgraphFile")
    if not graph.startswith("<FILE:"):
        return ()
    return ("qgraphFile", graph), ("butlerConfig", configuration.text("butlerConfig"))


def _write_inputs(draft: RunPaths, plan: Plan) -> None:
    draft.inputs.mkdir()
    contents: list[tuple[Path, bytes | None]]
    contents = [(read.path, read.content) for read in plan.run.configuration.read_files()]
    contents += [(path, None) for path in plan.payload]
    for number, (path, content) in enumerate(contents):
        target = draft.inputs / path.name
        # Files of one name from several folders are kept side by side.
        target = target if not target.exists() else draft.inputs / f"{number}_{path.name}"
        if content is None:
            shutil.copyfile(path, target)  # which may be large
        else:
            create_file(target, [content])


def _effective(configuration: Configuration) -> str:
    text: str = yaml.safe_dump(plain(configuration.config.root), sort_keys=False, allow_unicode=True, width=120)
    return text
