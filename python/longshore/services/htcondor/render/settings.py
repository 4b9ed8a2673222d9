"""Validates HTCondor's own settings: ``htcondor``, ``profile.condor``, ``wmsConfig``, categories, ``getenv``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from longshore.config.keys import JOB, SITE
from longshore.config.quantities import parse_bool
from longshore.contract.service import Context
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.workflow import JobSettings
from longshore.services.htcondor.keys import TABLE
from longshore.services.htcondor.render import quoting
from longshore.sites.inherited_environment import is_excluded

SETTINGS_KEY: Final = "htcondor"
"""Key of the service's settings map."""
JOB_KEYS: Final = tuple(sorted(row.name for row in TABLE.level(JOB) if row.name != TABLE.map and "." not in row.name))
JOB_MAPS: Final = ("attrs", "profile.condor")
RUN_KEYS: Final = (
    "executeMachinesPattern",
    "memoryLimit",
    "nodeset",
    "provisionResources",
    "provisioning",
    "provisioningMaxWallTime",
    "wmsConfig",
)
"""Keys outside of the map that only this service reads."""
UNUSED_KEYS: Final = {
    "backendOptions": "commands of submit descriptions are in 'profile.condor' and 'directives'",
    "concurrencyLimits": "the pool has limits of its own (NAME_LIMIT)",
    "enforceMemory": "the pool's own policy enforces memory",
    "fastFailureTime": "DAGMan pauses no run",
    "keepLogs": "HTCondor writes the logs, and they stay",
    "keepTmp": "the scratch directories of jobs are HTCondor's, which removes them",
    "killGrace": "the machines decide how jobs end (MachineMaxVacateTime)",
    "killSignals": "the machines decide how jobs end; profile.condor: {kill_sig: INT} selects a signal",
    "limits.arraySize": "HTCondor gets the whole graph",
    "limits.pollFloor": "DAGMan's own interval is DAGMAN_CHECK_QUEUE_INTERVAL of 'wmsConfig'",
    "limits.queued": "DAGMan's own limit is DAGMAN_MAX_JOBS_IDLE of 'wmsConfig'",
    "limits.running": "DAGMan's own limit is DAGMAN_MAX_JOBS_SUBMITTED of 'wmsConfig'",
    "limits.submitRate": "DAGMan's own limit is DAGMAN_MAX_SUBMITS_PER_INTERVAL of 'wmsConfig'",
    "maxFastFailures": "DAGMan pauses no run",
    "maxLogSize": "sizes of logs are not checked while jobs run",
    "memoryGrace": "the pool's own policy enforces memory",
    "packing": "HTCondor gets the whole graph; 'clusterAlgorithm' packs tasks into jobs",
    "partitions": "HTCondor has no queues: jobs go to the machines that fit them",
    "pilot": "HTCondor gets the whole graph; 'clusterAlgorithm' packs tasks into jobs",
    "qos": "HTCondor has no queues, and so no quality of service",
    "queue": "HTCondor has no queues: jobs go to the machines that fit them",
    "resources": "the pool has the machines",
    "retryOnLost": "HTCondor restarts a job whose machine went down",
    "retryOnPreempted": "HTCondor restarts a preempted job",
    "scratch": "the scratch directories of jobs are HTCondor's",
    "setup.submit": "HTCondor is called through its own library, without a shell",
    "shareMachine": "the pool has the machines",
    "subDirTemplate": "logs are in folders by label",
    "templates": "submit descriptions are written without a template; 'directives' adds lines to them",
    "transferCommand": "HTCondor transfers files itself; a plug-in of the pool transfers files at URLs",
}
"""Key without effect on HTCondor -> why."""
SITE_KEYS: Final = TABLE.names(SITE)
"""Keys of the map: limits of queued jobs per category; names of the pool and the schedd."""
_OTHER_KEYS: Final = frozenset({*JOB_KEYS, *JOB_MAPS, "container", "directives", "launcher"})
_LOGIN_VARIABLES: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TZ", "USER")
_EXCLUDED_PATTERNS: Final = (
    "_CONDOR_*",
    "SLURM_*",
    "SBATCH_*",
    "PBS_*",
    "SGE_*",
    "LSB_*",
    "*SECRET*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*CREDENTIAL*",
    "*API_KEY*",
    "*PRIVATE_KEY*",
    "*ACCESS_KEY*",
    "*ENCRYPTION_KEY*",
    "*TOKEN*",
)
"""Patterns of variables that are inherited only by name: schedulers' own, and likely secrets."""
_RESERVED_COMMANDS: Final = frozenset({"log", "queue", "arguments", "executable", "output", "error", "dagman_log"})
"""Commands of a submit description that users may not set: the run depends on them."""
_ATTRIBUTE: Final = re.compile(r"(?:\+|My\.)?[A-Za-z_]\w*", re.ASCII)


class CondorJobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """HTCondor settings of a job profile."""

    overwrite: bool = False
    """Whether attempts share one log (``overwriteJobFiles``)."""
    release: str = ""
    """Expression that releases a held job at once (``releaseExpr``)."""
    lines: tuple[str, ...] = ()
    """Lines of the submit description after all others."""

    @classmethod
    def of(cls, settings: JobSettings) -> CondorJobSettings:
        """Read the settings of a job profile.

        Raises `ConfigError` for an unknown key or an invalid value.
        """
        own = settings.service_settings
        if unknown := sorted(own.keys() - _OTHER_KEYS - set(SITE_KEYS)):
            raise _unknown_key_error(f"'{SETTINGS_KEY}' has no key '{unknown[0]}'", unknown[0], SITE_KEYS)
        return cls(
            overwrite=parse_bool(own.get("overwriteJobFiles", False), "overwriteJobFiles"),
            release=_single_line("releaseExpr", own.get("releaseExpr") or ""),
            lines=tuple(_description_lines(own)),
        )


def _description_lines(own: Mapping[str, Any]) -> Iterator[str]:
    """The user's lines of the submit description: attributes, ``profile.condor``, and directives."""
    for name, value in (own.get("attrs") or {}).items():
        yield f"My.{_check_name('attrs', name)} = {_attribute_literal(name, value)}"
    profile = dict(own.get("profile.condor") or {})
    if nodeset := own.get("nodeset"):
        wanted = f"TARGET.Nodeset =?= {quoting.quote_attribute(str(nodeset))}"
        user_requirements = profile.pop("requirements", None)
        yield f"My.JobNodeset = {quoting.quote_attribute(str(nodeset))}"
        yield (
            f"requirements = ({_single_line('requirements', user_requirements)}) && {wanted}"
            if user_requirements
            else f"requirements = {wanted}"
        )
    for name, value in profile.items():
        if value is None:
            continue
        command = _check_name("profile.condor", name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield f"{command} = {_single_line(name, text)}"
    for line in own.get("directives") or ():
        yield _single_line(
            "directives", _check_reserved("directives", str(line).partition("=")[0].strip()) and str(line)
        )


def _check_name(where: str, name: str) -> str:
    """Validate the name of an attribute or a command.

    Raises `ConfigError` if it is invalid, or reserved.
    """
    if not _ATTRIBUTE.fullmatch(name):
        raise ConfigError(
            f"'{where}' has '{name}', which is the name of no command of a submit description",
            hint="Attributes of jobs begin with '+', commands with a letter.",
        )
    return _check_reserved(where, name)


def _check_reserved(where: str, name: str) -> str:
    if name.lower() in _RESERVED_COMMANDS or name.lower().startswith("queue"):
        raise ConfigError(
            f"'{where}' cannot set '{name}': a job is run and found again by it", hint="Leave that line out."
        )
    return name


def _attribute_literal(name: str, value: object) -> str:
    """The value of an attribute as a ClassAd literal: text becomes a string, never an expression."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return quoting.quote_attribute(value)
    raise ConfigError(f"'attrs.{name}' must be text, a number, true or false, not {value!r}")


def _single_line(key: str, value: object) -> str:
    text = str(value).strip()
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
        raise ConfigError(f"'{key}' must be one line of text, not {text!r}")
    return text


# ------------------------------------------------------------------------------------------------------ of the run


def _dagman_names(words: str) -> frozenset[str]:
    return frozenset(f"DAGMAN_{word}" for word in words.split())


_BOOLS: Final = _dagman_names("""
    ABORT_DUPLICATES ABORT_ON_SCARY_SUBMIT AGGRESSIVE_SUBMIT ALLOW_ANY_NODE_NAME_CHARACTERS ALWAYS_RUN_POST
    AUTO_RESCUE DEBUG_CACHE_ENABLE GENERATE_SUBDAG_SUBMITS LOG_ON_NFS_IS_ERROR MUNGE_NODE_NAMES
    PROHIBIT_MULTI_JOBS PUT_FAILED_JOBS_ON_HOLD REMOVE_JOBS_AFTER_LIMIT_CHANGE REMOVE_NODE_JOBS
    REPORT_GRAPH_METRICS RESET_RETRIES_UPON_RESCUE RETRY_NODE_FIRST RETRY_SUBMIT_FIRST STARTUP_CYCLE_DETECT
    SUBMIT_DEPTH_FIRST SUPPRESS_JOB_LOGS SUPPRESS_NOTIFICATION USE_JOIN_NODES USE_SHARED_PORT
    WRITE_PARTIAL_RESCUE USE_OLD_DAG_READER COPY_TO_SPOOL INHERIT_ATTRS_PREFIX_ENABLED
""")
_NUMBERS: Final = _dagman_names("""
    ALLOW_EVENTS CHECK_QUEUE_INTERVAL DEBUG_CACHE_SIZE DEFAULT_PRIORITY HOLD_CLAIM_TIME MAX_HOLD_SCRIPTS
    MAX_JOB_HOLDS MAX_JOBS_IDLE MAX_JOBS_SUBMITTED MAX_POST_SCRIPTS MAX_PRE_SCRIPTS MAX_RESCUE_NUM
    MAX_SUBMITS_PER_INTERVAL MAX_SUBMIT_ATTEMPTS PENDING_REPORT_INTERVAL QUEUE_UPDATE_INTERVAL SUBMIT_DELAY
    USER_LOG_SCAN_INTERVAL USE_STRICT VERBOSITY
""") | {"MAX_DAGMAN_LOG"}
_STRINGS: Final = _dagman_names("""
    CONDOR_RM_EXE CONDOR_SUBMIT_EXE DEBUG INHERIT_ATTRS INHERIT_ATTRS_PREFIX INSERT_SUB_FILE
    MANAGER_JOB_APPEND_GETENV NODE_RECORD_INFO ON_EXIT_REMOVE RECORD_MACHINE_ATTRS
""")
_RESERVED_SETTINGS: Final = {
    "DAGMAN_CONFIG_FILE": "the run has a file of its own",
    "DAGMAN_DEFAULT_APPEND_VARS": "the run's DAG works with either",
    "DAGMAN_DEFAULT_NODE_LOG": "what became of the jobs is read from where DAGMan writes it by default",
    "DAGMAN_USE_DIRECT_SUBMIT": "without it there are no submit descriptions within a DAG",
}
DAGMAN_SETTINGS: Final = _BOOLS | _NUMBERS | _STRINGS
"""DAGMan settings that ``wmsConfig`` accepts (HTCondor's manual, configuration entries for DAGMan)."""
_ENVIRONMENT: Final = "DAGMAN_MANAGER_JOB_APPEND_GETENV"
_SUBMIT_ATTEMPTS: Final = ("DAGMAN_MAX_SUBMIT_ATTEMPTS", "11")
"""How often DAGMan submits a job to a schedd that does not answer before the job fails.

It waits 1 s after the first try and twice as long after each: 17 minutes in all. HTCondor's 6 are 31 s, less than a
schedd takes to start again under load. What the schedd refuses is not repeated (``SubmitResult::FAILURE`` in
``src/condor_dagman/dagman_submit.cpp``).
"""


def dagman_settings(ctx: Context) -> list[tuple[str, str]]:
    """Name and value of each DAGMan setting of the run, sorted.

    Raises `ConfigError` if one is unknown, reserved, or has a value of the wrong type.
    """
    values = run_value(ctx, "wmsConfig", {})
    if not isinstance(values, Mapping):
        raise ConfigError(f"'wmsConfig' must be a map, not {values!r}")
    # Without it DAGMan, and so the jobs, would inherit almost no variables.
    found = dict([(_ENVIRONMENT, "TRUE"), _SUBMIT_ATTEMPTS]) | {
        str(name).upper(): _setting_text(str(name), value) for name, value in values.items()
    }
    return sorted(found.items())


def _setting_text(name: str, value: object) -> str:
    setting = name.upper()
    if why := _RESERVED_SETTINGS.get(setting):
        raise ConfigError(f"'wmsConfig' cannot set '{name}': {why}", hint="Leave it out.")
    text = _single_line(f"wmsConfig.{name}", value)
    if setting in _BOOLS:
        return str(parse_bool(text, f"wmsConfig.{name}")).lower()
    if setting in _NUMBERS:
        if not re.fullmatch(r"-?\d+", text):
            raise ConfigError(f"'wmsConfig.{name}' must be a whole number, not '{text}'")
        return text
    if setting in _STRINGS:
        return text
    raise _unknown_key_error(f"'wmsConfig' has '{name}', which is no setting of DAGMan", setting, DAGMAN_SETTINGS)


def _unknown_key_error(message: str, name: str, known: Iterable[str]) -> ConfigError:
    known_names = sorted(known)
    return ConfigError(message, hint=did_you_mean(name, known_names, likeness=NAME_LIKENESS) or name_all(known_names))


def run_value(ctx: Context, key: str, default: YamlValue = None) -> YamlValue:
    """Value of the run's configuration for one of `RUN_KEYS`."""
    values: Mapping[str, YamlValue] = ctx.settings.get("run") or {}
    return values.get(key, default)


def max_jobs(ctx: Context) -> dict[str, int]:
    """Maximum of queued jobs per category; the service's own map overrides the run's configuration.

    Raises `ConfigError` if a value is no positive whole number.
    """
    own = ctx.site.settings.get(SETTINGS_KEY) or {}
    values = own.get("maxJobs") or {} if isinstance(own, Mapping) else {}
    if not isinstance(values, Mapping):
        raise ConfigError(f"'{SETTINGS_KEY}.maxJobs' must be a map, not {values!r}", hint="For example {heavy: 20}.")
    found = {category_name(name): int(most) for name, most in ctx.settings.get("max_jobs", {}).items()}
    for name, value in values.items():
        if isinstance(value, bool) or not re.fullmatch(r"[1-9]\d*", str(value)):
            raise ConfigError(f"'{SETTINGS_KEY}.maxJobs.{name}' must be a whole number above 0, not '{value}'")
        found[category_name(name)] = int(value)
    return found


def category_name(name: object) -> str:
    """Name of a category in a DAG file: letters, digits and ``_``."""
    return re.sub(r"\W", "_", str(name), flags=re.ASCII)


def getenv(ctx: Context) -> str:
    """Patterns of the variables that jobs inherit from the submitter through DAGMan; values are never written."""
    rule = (ctx.settings.get("executor") or {}).get("inherit", "all")
    if rule == "none":
        return ", ".join(_LOGIN_VARIABLES)
    if rule == "all":
        return ", ".join((*(f"!{pattern}" for pattern in _EXCLUDED_PATTERNS), "*"))
    patterns = [rule] if isinstance(rule, str) else list(map(str, rule))
    # A pattern that matches the excluded names requests them.
    requested_patterns = [pattern for pattern in patterns if is_excluded(pattern)]
    excluded = (
        name for name in _EXCLUDED_PATTERNS if not any(fnmatchcase(pattern, name) for pattern in requested_patterns)
    )
    return ", ".join((*(f"!{name}" for name in excluded), *patterns))
