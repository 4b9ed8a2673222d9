"""The one judgement before a run, by site, service and workload manager; here so that all who judge find the same.

`submit` and `config lint` judge the jobs of a run. `ping`, `site check` and the choice of a site judge the job that
has no settings but those of the site and the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from longshore.config.merge import Node
from longshore.contract.service import Context, Problem, WmsService
from longshore.errors import CodeRefusedError, ConfigError, UndefinedVariableError
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, Workflow
from longshore.plan.ceilings import contradicting_settings, exceeded_site_limits
from longshore.plan.configuration import Configuration, ResolvedConfiguration
from longshore.plan.probe import SITE_LIMIT_S, find_answer_problems, probe_jobs
from longshore.plan.problems import drop_consequences, group_problems, merge_labels
from longshore.plan.profiles import ProfileCompiler, capped_memory_notes
from longshore.plan.resolved_run import ResolvedRun

COMMAND_KEY: Final = "runQuantumCommand"
_SITE_JOB: Final = "longshore-site"


def judge(run: ResolvedRun, workflow: Workflow, *, limit_s: float | None = None) -> Iterator[Problem]:
    """Yield what keeps the jobs of a run from running, and what is noted; the manager counts where it answered.

    That it takes no run at all is found first (`find_answer_problems`). `limit_s` bounds the time of questions about
    the jobs themselves.
    """
    limit_s = SITE_LIMIT_S if run.static is not None else limit_s
    # A limit has a place in a file, and so precedes what else a request exceeds.
    yield from exceeded_site_limits(run, workflow)
    yield from contradicting_settings(run, workflow)
    if run.static is None or run.static.is_service_known:
        yield from run.service.check(workflow, run.context)
    yield from probe_jobs(run.service, workflow.samples, run.context, limit_s=limit_s)
    yield from capped_memory_notes(workflow)


def judge_site(configuration: Configuration, service: WmsService, context: Context) -> list[Problem]:
    """Return what is found against the job that has no settings but those of a configuration at its site."""
    answered = find_answer_problems(context.probe)
    if context.probe is not None and not context.probe.ok:
        # Of a cluster that cannot be used, nothing is known.
        return answered
    fields = {name: getattr(configuration, name) for name in Configuration.__struct_fields__}
    run = ResolvedRun(
        configuration=ResolvedConfiguration(**fields), service=service, paths=context.paths, context=context
    )
    try:
        settings = ProfileCompiler(run).job_profile(_SITE_JOB, with_command=False).settings
    except (CodeRefusedError, UndefinedVariableError):
        # Its requests depend on code, or on the values of each job.
        workflow = Workflow(_SITE_JOB, Dag(()))
    except ConfigError as error:
        return [Problem(message=error.message, origin=error.origin, hint=error.hint, code=error.code)]
    else:
        job = Job(name=_SITE_JOB, label=_SITE_JOB, command="true", settings=settings)
        workflow = Workflow(_SITE_JOB, Dag((job,)))
    found = judge(run, workflow, limit_s=SITE_LIMIT_S)
    return [*answered, *(_of_site(each) for each in summarize(found, run, workflow))]


def summarize(
    problems: Iterable[Problem],
    run: ResolvedRun,
    workflow: Workflow,
    commands: Mapping[str, Node] = MappingProxyType({}),
) -> list[Problem]:
    """Return problems of jobs without the consequences of others, one for all that are alike, with their places."""
    found = group_problems(drop_consequences(problems, workflow), workflow)
    return merge_labels(add_origin(problem, run, commands) for problem in found)


def add_origin(problem: Problem, run: ResolvedRun, commands: Mapping[str, Node]) -> Problem:
    """Return a problem with the origin of the value it is about; `commands` are the payload's per label."""
    if problem.origin or not (problem.key and problem.label):
        return problem
    origin = run.configuration.user_origin(problem.key, problem.label)
    if origin is None and problem.key == COMMAND_KEY and problem.label in commands:
        # A pipeline uses another key for it.
        hint = problem.hint.replace(f"'{COMMAND_KEY}'", "'command'")
        return msgspec.structs.replace(problem, origin=commands[problem.label].origin, hint=hint)
    return msgspec.structs.replace(problem, origin=origin)


def _of_site(problem: Problem) -> Problem:
    """Return a problem of the site's own job without the name of a job that nobody submits."""
    message = problem.message.replace(f"job '{_SITE_JOB}': ", "").replace(f"job '{_SITE_JOB}'", "a job")
    message = message.replace(f"'{_SITE_JOB}'", "a job")
    return msgspec.structs.replace(problem, message=message, job=None, label="", jobs=0)
