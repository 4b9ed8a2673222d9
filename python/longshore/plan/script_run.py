"""Single-job run of a user's script (`longshore submitcmd`), from the section ``customJob``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.config.command_lines import split_words
from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.interpolate import Interpolator
from longshore.config.layers import Overrides
from longshore.config.merge import Node, map_items
from longshore.config.search import Config
from longshore.contract.service import RUN_FOLDER
from longshore.errors import ConfigError, FilesError, Origin
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, Workflow
from longshore.plan.acquire import PAYLOAD_KEYS
from longshore.plan.checks import check_jobs
from longshore.plan.configuration import run_attributes
from longshore.plan.probe import refuse_by_probe
from longshore.plan.resolved_run import ResolvedRun
from longshore.plan.run_plan import RunPlan, single_job_profile
from longshore.plan.shared_outputs import check_shared_outputs, planned_outputs
from longshore.plan.site_choice import releasing_site, resolve_at_chosen_site
from longshore.plan.stages import advance_run, submit_plan
from longshore.plan.submit_once import PreparedRun, SubmittedRun
from longshore.progress import Progress, RecordingProgress
from longshore.rundir.find_run import recorded_refusal
from longshore.rundir.registry import remove_entry, reserved_id
from longshore.system.reading import can_see, can_see_file, can_see_folder

LABEL: Final = "customJob"


class _Script(msgspec.Struct, frozen=True, kw_only=True):
    """Section ``customJob`` with resolved paths."""

    executable: Path
    arguments: tuple[str, ...]
    inputs: Mapping[str, Path]
    outputs: Mapping[str, str]
    """Paths as written: a relative one is in the run directory."""


@recorded_refusal()
@hidden_secrets()
def submit_script(
    path: Path,
    overrides: Overrides | None = None,
    *,
    with_probe: bool = True,
    shares_outputs: bool = False,
    progress: Progress,
) -> SubmittedRun:
    """Prepare a run of one script and submit it; without a probe, the workload manager is not asked first.

    With `shares_outputs`, a live run may write the same files. A refusal is recorded for the directory that it happened
    in. Raises `LongshoreError` if the run cannot be prepared or is refused; nothing is left behind then.
    """
    recording = RecordingProgress(progress)
    with reserved_id() as (run_id, now):
        plan = _plan(path, overrides, run_id=run_id, now=now, with_probe=with_probe, progress=recording)
        with releasing_site(plan.run):
            refuse_by_probe(plan.run.context.probe)
            outputs = planned_outputs(plan)
            check_shared_outputs(outputs, recording, share=shares_outputs)
    return submit_plan(msgspec.structs.replace(plan, outputs=outputs, shares_outputs=shares_outputs), recording)


@hidden_secrets()
def prepare_script(
    path: Path, overrides: Overrides | None = None, *, with_probe: bool = True, progress: Progress
) -> PreparedRun:
    """Write the run directory of one script; its id is not registered. The parameters are those of `submit_script`."""
    with reserved_id() as (run_id, now):
        recording = RecordingProgress(progress)
        plan = _plan(path, overrides, run_id=run_id, now=now, with_probe=with_probe, progress=recording)
        with releasing_site(plan.run):
            prepared = advance_run(plan, PreparedRun, recording)
    remove_entry(run_id)
    return prepared


def _plan(
    path: Path,
    overrides: Overrides | None,
    *,
    run_id: str,
    now: float,
    with_probe: bool,
    progress: RecordingProgress,
) -> RunPlan:
    run = resolve_at_chosen_site(path, overrides, now=now, progress=progress, run_id=run_id, with_probe=with_probe)
    with releasing_site(run):
        ignored = [key for key in PAYLOAD_KEYS if run.configuration.config.node_at(key)]
        if ignored:
            progress.note("submitcmd runs 'customJob' alone and ignores " + ", ".join(f"'{key}'" for key in ignored))
        return plan_script(run, progress)


def plan_script(run: ResolvedRun, progress: Progress) -> RunPlan:
    """Make the job of ``customJob``; nothing is written.

    Raises `ConfigError` if a value is wrong, `FilesError` if a file is missing.
    """
    script = _read_script(run)
    name = script.executable.name
    files = [File(name=key, path=source.name, transfer=True) for key, source in script.inputs.items()]
    files += [File(name=key, path=target, transfer=True) for key, target in script.outputs.items()]
    profile = single_job_profile(run, LABEL, searchobj=_section(run.configuration.config), progress=progress)
    job = Job(
        name=name,
        label=LABEL,
        command=(f"{RUN_FOLDER}/{name}", *script.arguments),
        settings=profile.settings,
        inputs=tuple(script.inputs),
        outputs=tuple(script.outputs),
    )
    workflow = Workflow(
        run.configuration.text("uniqProcName"),
        Dag.by_name([job]),
        files={file.name: file for file in files},
        attributes=run_attributes(run.configuration) | {"bps_iscustom": "True"},
    )
    started = check_jobs(run, workflow, progress)
    return RunPlan(
        run=run,
        workflow=workflow,
        started=started,
        directories=[str(Path(target).parent) for target in script.outputs.values()],
        copies={path.name: path.absolute() for path in (script.executable, *script.inputs.values())},
        executables=frozenset({name}),
    )


def _read_script(run: ResolvedRun) -> _Script:
    config = run.configuration.config
    section = _section(config)
    inputs, outputs = _path_map(section, "inputs"), _path_map(section, "outputs")
    files = {**inputs, **outputs}
    repeated = [key for key in inputs if key in outputs]
    if repeated:
        raise ConfigError(f"'{repeated[0]}' is both an input and an output", origin=outputs[repeated[0]].origin)
    # Names of files stay symbolic until it is known where the job runs.
    scope = run.configuration.scope(curr_pipetask=LABEL)
    file_fields = {key: f"<FILE:{key}>" for key in files}
    plain = Interpolator(config, replace(scope, searchobj=section))
    own = replace(scope, current={**scope.current, **file_fields}, searchobj=section, of_attempts=True)
    named = Interpolator(config, own)

    def text(expander: Interpolator, node: Node) -> str:
        return expander.template(node.text, node.origin).render({})

    executable = _check_executable(
        Path(text(plain, _required_text(section, "executable"))), _required_text(section, "executable").origin
    )
    arguments = _required_text(section, "arguments")
    try:
        words = split_words(named.parts(arguments.text, arguments.origin))
    except ValueError as error:
        raise ConfigError(
            f"'customJob.arguments' cannot be split into words: {error}", origin=arguments.origin
        ) from error
    sources = {key: Path(text(plain, node)) for key, node in inputs.items()}
    for key, source in sources.items():
        if not can_see(source):
            raise FilesError(f"input path '{source}' does not exist", origin=inputs[key].origin)
        if can_see_folder(source):
            raise FilesError(f"input path '{source}' is a directory", origin=inputs[key].origin)
    _refuse_equal_names([executable, *sources.values()], section.origin)
    return _Script(
        executable=executable,
        arguments=words,
        inputs=sources,
        outputs={key: text(plain, node) for key, node in outputs.items()},
    )


def _section(config: Config) -> Node:
    section = config.node_at(LABEL)
    if section is None or not isinstance(section.value, dict):
        raise ConfigError(
            "there is no section 'customJob'",
            origin=section.origin if section else None,
            hint="submitcmd needs: customJob: {executable: PATH, arguments: \"...\"}; 'submit' runs a payload.",
        )
    return section


def _required_text(section: Node, key: str) -> Node:
    node = map_items(section).get(key)
    if node is None or node.value is None or isinstance(node.value, list | dict):
        hint = 'Give "" where it takes none.' if key == "arguments" else "Give the path of the script."
        raise ConfigError(f"'customJob.{key}' must be given, as text", origin=(node or section).origin, hint=hint)
    return node


def _path_map(section: Node, key: str) -> Mapping[str, Node]:
    node = map_items(section).get(key)
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict) or any(isinstance(item.value, list | dict) for item in node.value.values()):
        raise ConfigError(f"'customJob.{key}' must be a map from names to paths", origin=node.origin)
    return node.value


def _check_executable(path: Path, origin: Origin) -> Path:
    """Return the script's path, after a check that a copy of it can be executed."""
    if not can_see_file(path):
        what = "is a directory" if can_see_folder(path) else "does not exist"
        raise FilesError(f"executable '{path}' {what}", origin=origin)
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise FilesError(f"executable '{path}' cannot be read: {error.strerror}", origin=origin) from error
    if not head.startswith((b"#!", b"\x7fELF")):
        raise FilesError(
            f"executable '{path}' cannot be run: its first line does not name an interpreter",
            origin=origin,
            hint="Begin it with a line such as #!/bin/bash or #!/usr/bin/env python3.",
        )
    return path


def _refuse_equal_names(paths: list[Path], origin: Origin) -> None:
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name in seen:
            raise FilesError(
                f"'{seen[path.name]}' and '{path}' would both be copied to '{path.name}' in the run directory",
                origin=origin,
                hint="Rename one of them.",
            )
        seen[path.name] = path
