"""Script of the job that runs the engine, or that collects a native run."""

from __future__ import annotations

from collections.abc import Mapping

from longshore.batch.dialect import EngineJobSpec
from longshore.contract.batch import Batch
from longshore.contract.context import RunPaths
from longshore.services.slurm.extensions.burst_buffer import refuse_buffer_lines
from longshore.services.slurm.render.batch_script import merge_settings
from longshore.services.slurm.render.sbatch_options import (
    SbatchOptions,
    components,
    omitted_options,
    raw_options,
    slurm_map,
)
from longshore.services.slurm.render.templates import Script, job_name, rendered


def engine_script(spec: EngineJobSpec, run: RunPaths, settings: Mapping[str, object], template: str) -> str:
    """Render the script; raises `ConfigError` when the settings are invalid."""
    slurm = slurm_map(settings)
    options = merge_settings(
        {"slurm": {name: slurm.get(name) for name in ("partition", "qos", "reserv", "wckey")}}, spec.settings
    )
    batch = Batch(id="0", tag=spec.name, request=spec.request, members=())
    account, qos = settings.get("account"), settings.get("qos")
    defaults = SbatchOptions(account=str(account) if account else None, qos=str(qos) if qos else None)
    # Slurm may send the signal up to a minute early (sbatch(1): --signal).
    signal = (f"--signal=B:USR1@{spec.warning_s}",) if spec.warning_s else ()
    raw = raw_options(settings.get("directives"), options.get("sbatch"))
    refuse_buffer_lines(raw)
    script = Script(
        name=job_name(spec.name, str(slurm.get("repo_key") or "")),
        components=components(batch, options, defaults=defaults)[:1],
        array=0,
        raw=(*signal, *raw),
        folder=str(run.root),
        output=str(run.engine_log),
        wrapper="",
        table="",
        ends="",
        comment=f"longshore engine run={run.root.name}",
        requeue=True,
        omit=omitted_options(options),
    )
    return rendered(script, template, by=spec.by, command=spec.command, body=spec.body)
