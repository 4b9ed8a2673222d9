"""Stage `prepare`: writes the run directory."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from longshore import __version__
from longshore.config.notices import SECTION, read_notices
from longshore.config.secret_values import find_secret_values, keep_private
from longshore.config.yaml_text import dump_tree
from longshore.contract.capabilities import log_directories
from longshore.contract.service import RunPaths
from longshore.errors import FilesError
from longshore.model.file_identity import external_files
from longshore.model.submission import REUSED_JOBS, RunIdentity
from longshore.model.workflow_lines import workflow_lines
from longshore.plan.fingerprint import origins_of, take_fingerprint
from longshore.plan.run_plan import RunPlan, write_saved
from longshore.plan.submit_once import PreparedRun
from longshore.rundir.notices import encode_notice_rules
from longshore.rundir.registry import remember_service
from longshore.rundir.run_directory import RUN_FORMAT, create_run_directory, write_card, write_made_from, write_rendered
from longshore.rundir.submissions import create_manifest, look_at_inputs, take_manifest, write_input_files
from longshore.system.atomic import copy_file, create_file, make_executable
from longshore.system.folder import make_folders
from longshore.system.links import link_file
from longshore.system.room import apply_umask, set_group


def write_run(plan: RunPlan) -> PreparedRun:
    """Write the run directory; raises `FilesError` if that fails, and leaves nothing behind."""
    run, workflow = plan.run, plan.workflow
    card = RunIdentity(
        format=RUN_FORMAT,
        id=run.id,
        name=workflow.name,
        service=run.configuration.service,
        longshore=__version__,
        created_at=run.configuration.layers.now,
        key=secrets.token_hex(4),
        expected=len(workflow),
        labels=workflow.counts(),
        attributes=dict(workflow.attributes),
        id_links=run.configuration.text("idLinkPath") if run.configuration.flag("makeIdLink") else None,
    )
    remember_service(card.service)
    site = run.configuration.resolved_site
    with (
        apply_umask(site.umask),
        create_run_directory(run.paths.root, kept=plan.kept_files) as draft,
        keep_private(
            draft,
            find_secret_values(run.configuration.all_layers, run.configuration.env),
            more=[run.paths.root / name for name in plan.kept_files],
        ) as private,
    ):
        if group := site.settings.get("group"):
            set_group(draft.root, group)
        mutable = _write_files(draft, plan, card.run_token)
        write_card(draft, card, durable=False)
        manifest = take_manifest(
            draft,
            card,
            moved=[run.paths.root / name for name in plan.kept_files],
            left_out={*mutable, *plan.saved, *plan.links},
            inputs=plan.copies.keys() - plan.executables,
        )
        create_manifest(draft, manifest)
    return PreparedRun(
        run=run.paths,
        card=card,
        service=run.service,
        site=run.configuration.site,
        umask=site.umask,
        kept_files=plan.kept_files,
        private_files=tuple(private),
        outputs=plan.outputs,
        shares_outputs=plan.shares_outputs,
    )


def _write_files(draft: RunPaths, plan: RunPlan, run_token: str) -> set[str]:
    """Write the files of a run except its records, and return the names of those that the service may change."""
    run, workflow = plan.run, plan.workflow
    write_sources(draft, plan)
    create_file(draft.workflow, workflow_lines(workflow), below=draft.root)
    write_saved(draft.root, plan.saved)
    for directory in (*plan.directories, *log_directories(run.service, workflow)):
        target = Path(directory)
        # Those of outputs may be anywhere, and below `submitPath` they are named by the place of the finished run.
        path = draft.root / (target.relative_to(run.paths.root) if target.is_relative_to(run.paths.root) else target)
        make_output_folder(path, draft.root)
    for name, program in plan.programs.items():
        create_file(_with_parent_folder(draft, name), [program.encode()], below=draft.root)
    for name, source in plan.copies.items():
        copy_file(source, _with_parent_folder(draft, name), below=draft.root)
    for name in plan.executables:
        make_executable(draft.root / name, below=draft.root)
    for name, source in plan.links.items():
        link_file(source, _with_parent_folder(draft, name), below=draft.root)
    if run.decision is not None:
        create_file(draft.site_choice, [msgspec.json.encode(run.decision) + b"\n"], below=draft.root)
    if read_notices(run.configuration.config.node_at(SECTION)):
        write_notice_rules(draft, plan)
    if plan.reused is not None:
        create_file(draft.root / REUSED_JOBS, [msgspec.json.encode(plan.reused) + b"\n"], below=draft.root)
    make_folders(draft.journal, below=draft.root)
    # Made here with the permissions of the run: members of its group leave orders in it.
    make_folders(draft.steer, below=draft.root)
    return write_service_files(draft, plan, run_token)


def write_notice_rules(draft: RunPaths, plan: RunPlan) -> None:
    """Write the rules of notices of the configuration."""
    rules = read_notices(plan.run.configuration.config.node_at(SECTION))
    create_file(draft.notice_rules, [encode_notice_rules(rules)], below=draft.root)


def make_output_folder(path: Path, root: Path) -> None:
    """Create a folder of outputs, inside the run directory `root` or elsewhere; there an error is a `FilesError`."""
    is_inside = path.is_relative_to(root) and ".." not in path.parts
    try:
        make_folders(path, below=root if is_inside else None)
    except OSError as error:
        if is_inside:
            raise
        raise FilesError(f"the folder '{path}' for outputs cannot be made: {error.strerror}") from error


def write_sources(draft: RunPaths, plan: RunPlan) -> None:
    """Write what a run is made from: the user's files, the merged configuration, and the state of inputs."""
    write_input_files(draft, look_at_inputs(_external_inputs(plan), with_content=plan.hashes_inputs))
    if not plan.has_sources:
        # Its directory has the files of the program that made its jobs.
        return
    configuration = plan.run.configuration
    _write_inputs(draft, plan)
    text = dump_tree(configuration.config.root, allow_unicode=True, width=120)
    create_file(draft.merged_config(plan.workflow.name), [text.encode()], below=draft.root)
    origins = {key: msgspec.to_builtins(origin) for key, origin in origins_of(configuration.config.root)}
    create_file(draft.origins, [msgspec.json.format(msgspec.json.encode(origins), indent=1), b"\n"], below=draft.root)
    write_made_from(draft, take_fingerprint(plan))


def _external_inputs(plan: RunPlan) -> Iterator[str]:
    """Yield the paths of files that jobs read and none makes."""
    files = plan.workflow.files
    made = {name for job in plan.workflow for name in job.outputs} if files else set()
    return iter(external_files(files, made).values())


def write_service_files(draft: RunPaths, plan: RunPlan, run_token: str) -> set[str]:
    """Write the files that the service renders, and return the names of those that it may change."""
    context = msgspec.structs.replace(plan.run.context, run_token=run_token)
    rendered = write_rendered(draft, plan.run.service.render(plan.workflow, context))
    return {str(file.path) for file in rendered if file.is_mutable}


def _with_parent_folder(draft: RunPaths, name: str) -> Path:
    """Create the folder of a file of the run and return the path of the file."""
    path = draft.root / name
    make_folders(path.parent, below=draft.root)
    return path


def _write_inputs(draft: RunPaths, plan: RunPlan) -> None:
    make_folders(draft.inputs, below=draft.root)
    contents: list[tuple[Path, bytes | None]]
    contents = [(read.path, read.content) for read in plan.run.configuration.read_files()]
    contents += [(path, None) for path in plan.payload]
    for number, (path, content) in enumerate(contents):
        target = draft.inputs / path.name
        # Files of one name from several folders get different names.
        target = target if not target.exists() else draft.inputs / f"{number}_{path.name}"
        if content is None:
            copy_file(path, target, below=draft.root)
        else:
            create_file(target, [content], below=draft.root)
