"""Combines the job profiles of a cluster's labels into the settings of its job, by BPS's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from longshore.config.profile import ATTRIBUTE_KEYS, AttributeValue, JobProfile
from longshore.config.templates import protect_text
from longshore.errors import ConfigError, Origin
from longshore.model.wording import quote_value
from longshore.model.workflow import JobRules, JobSettings, Request

_Amount = TypeVar("_Amount", int, float)
_Value = TypeVar("_Value")
_COMMON_RULES: Final[Mapping[str, Callable[[JobRules], object]]] = {
    "retryOn": lambda rules: rules.retry_on,
    "successIf": lambda rules: rules.success_if,
    "checkOutputs": lambda rules: rules.check_outputs,
}
"""Settings that jobs of several labels must have in common, by their keys."""
_REQUEST_FIELDS: Final = {
    "requestCpus": "cpus",
    "requestMemory": "memory_b",
    "requestDisk": "disk_b",
    "requestWalltime": "walltime_s",
    "requestResources": "resources",
}


class TaskGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a cluster that share all settings.

    Attributes
    ----------
    label
        Their label.
    settings
        Their values, as if each were a job.
    tasks
        Number of tasks.
    origins
        As for `JobProfile`.
    cluster_keys
        As for `JobProfile`.
    """

    label: str
    settings: JobSettings
    tasks: int = 1
    origins: Mapping[str, Origin]
    cluster_keys: frozenset[str] = frozenset()


class ClusterProfile(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Settings of the jobs of clusters with one composition.

    Attributes
    ----------
    name
        Name of the ``cluster`` section that can resolve conflicts between labels.
    settings
        What they share.
    parts
        The profile of each label of their tasks.
    """

    name: str
    settings: JobSettings
    parts: Mapping[str, JobProfile]

    @cached_property
    def varying_request_keys(self) -> frozenset[str]:
        """Keys of the request whose values differ per job."""
        return frozenset(key.partition(".")[0] for part in self.parts.values() for key in part.request)

    @cached_property
    def has_varying_settings(self) -> bool:
        """Whether any settings differ per job."""
        return bool(self.varying_request_keys) or self._varies_service_settings

    @cached_property
    def _varies_service_settings(self) -> bool:
        return any(part.service_settings for part in self.parts.values())

    @cached_property
    def varying_variables(self) -> tuple[str, ...]:
        """Names of the environment variables whose values differ per job."""
        return tuple(dict.fromkeys(name for part in self.parts.values() for name in part.environment))

    def settings_of(self, tasks: Sequence[tuple[str, Mapping[str, object]]]) -> JobSettings:
        """Settings of one job, from the label of each task and the values of its free variables.

        Raises
        ------
        ConfigError
            With these values, an amount is invalid, or the tasks conflict.
        """
        if not self.has_varying_settings:
            return self.settings
        if len(tasks) > 1 or self._varies_service_settings:
            return self._combine(tasks)
        # One task a job, by far the most jobs: those with equal values share their settings.
        ((label, values),) = tasks
        part = self.parts[label]
        key = (label, *part.request_key(values))
        found = self._settings_of_one.get(key)
        if found is None:
            request = msgspec.structs.replace(self.settings.request, **part.amounts_of(values))
            found = self._settings_of_one[key] = msgspec.structs.replace(self.settings, request=request)
        return found

    @cached_property
    def _settings_of_one(self) -> dict[tuple[object, ...], JobSettings]:
        return {}

    def _combine(self, tasks: Iterable[tuple[str, Mapping[str, object]]]) -> JobSettings:
        groups: dict[tuple[object, ...], tuple[str, JobSettings, int]] = {}
        for label, values in tasks:
            profile = self.parts[label]
            request, own = profile.request_of(values), profile.service_settings_of(values)
            key = (label, request.key(), repr(own) if profile.service_settings else "")
            settings = msgspec.structs.replace(profile.settings, request=request, service_settings=own)
            groups[key] = (label, settings, groups[key][2] + 1 if key in groups else 1)
        found = combine_settings(
            self.name,
            self.settings.label,
            [_task_group(label, settings, number, self.parts) for label, settings, number in groups.values()],
        )
        # Values equal for all jobs were checked against site limits and maximums already.
        own = {_REQUEST_FIELDS[key]: getattr(found.request, _REQUEST_FIELDS[key]) for key in self.varying_request_keys}
        growth = {key: found.attributes[key] for key in ("memoryMultiplier",) if key in found.attributes}
        attributes = {key: value for key, value in self.settings.attributes.items() if key != "memoryMultiplier"}
        return msgspec.structs.replace(
            self.settings,
            request=msgspec.structs.replace(self.settings.request, **own),
            number_of_retries=found.number_of_retries,
            attributes={**growth, **attributes},
            service_settings=found.service_settings,
        )

    def environment_of(self, tasks: Sequence[tuple[str, Mapping[str, object]]]) -> dict[str, str]:
        """Environment variables of one job that not all jobs share; `tasks` as for `settings_of`.

        Raises
        ------
        ConfigError
            Two tasks need different values.
        """
        return {name: self._agreed(name, tasks) for name in self.varying_variables}

    def _agreed(self, name: str, tasks: Sequence[tuple[str, Mapping[str, object]]]) -> str:
        found: dict[str, tuple[str, Origin | None]] = {}
        for label, values in tasks:
            part = self.parts[label]
            key = f"environment.{name}"
            if name in part.environment:
                found.setdefault(
                    part.environment[name].render(values, quote=protect_text), (label, part.origins.get(key))
                )
            elif name in part.settings.environment:
                found.setdefault(part.settings.environment[name], (label, part.origins.get(key)))
        return str(_single_value(f"environment.{name}", self.name, [(value, *place) for value, place in found.items()]))


def combine_profiles(
    name: str, label: str, counted: Sequence[tuple[str, int]], parts: Mapping[str, JobProfile]
) -> ClusterProfile:
    """Profile of clusters with one composition.

    Parameters
    ----------
    name
        Name of their ``cluster`` section.
    label
        Their label.
    counted
        Number of tasks per label.
    parts
        Profile per label of tasks.

    Raises
    ------
    ConfigError
        The labels conflict in a value.
    """
    settings = combine_settings(
        name, label, [_task_group(each, parts[each].settings, number, parts) for each, number in counted]
    )
    return ClusterProfile(name=name, settings=settings, parts=parts)


def _task_group(label: str, settings: JobSettings, tasks: int, parts: Mapping[str, JobProfile]) -> TaskGroup:
    """Some tasks of a label, with their settings."""
    return TaskGroup(
        label=label,
        settings=settings,
        tasks=tasks,
        origins=parts[label].origins,
        cluster_keys=parts[label].cluster_keys,
    )


def combine_settings(name: str, label: str, parts: Sequence[TaskGroup]) -> JobSettings:
    """Combine the settings of the parts of a cluster, whose tasks run one after another.

    Processors, memory and counted resources: the maximum. Disk and walltime: the sum, unless the section of the cluster
    sets what all its tasks need together. Growth of memory, retries and rules: from the part with the largest memory
    request.
    All other values must be equal wherever they are set.

    Raises
    ------
    ConfigError
        Two parts need different values.
    """
    first = parts[0].settings
    if len(parts) == 1 and parts[0].tasks == 1:
        return first if first.label == label else msgspec.structs.replace(first, label=label)
    most = _max_amount(part.settings.request.memory_b for part in parts)
    biggest = [part.settings for part in parts if part.settings.request.memory_b == most]
    for key, value_of in _COMMON_RULES.items():
        _single_value(key, name, [(value_of(part.settings.rules), part.label, part.origins.get(key)) for part in parts])
    return JobSettings(
        label=label,
        request=_combine_requests(parts, most),
        defaulted=tuple(key for key in first.defaulted if all(key in part.settings.defaulted for part in parts)),
        environment=_combine_maps(
            name, parts, lambda settings: settings.environment, prefix="environment.", origin_prefix="environment."
        ),
        number_of_retries=max(settings.number_of_retries for settings in biggest),
        rules=biggest[0].rules,
        limit_threads=_common_value(name, "limitThreads", parts, lambda settings: settings.limit_threads) or False,
        retry_unless_exit=_common_value(name, "retryUnlessExit", parts, lambda settings: settings.retry_unless_exit)
        or (),
        working_directory=_common_value(name, "workingDirectory", parts, lambda settings: settings.working_directory),
        site=_common_value(name, "computeSite", parts, lambda settings: settings.site, everywhere=True),
        cloud=_common_value(name, "computeCloud", parts, lambda settings: settings.cloud, everywhere=True),
        attributes=_combine_attributes(name, parts, biggest),
        service_settings=_combine_maps(name, parts, lambda settings: settings.service_settings, origin_prefix="own."),
    )


def _combine_requests(parts: Sequence[TaskGroup], memory_b: int | None) -> Request:
    requests = [part.settings.request for part in parts]
    names = dict.fromkeys(name for request in requests for name in request.resources)
    return Request(
        cpus=max(request.cpus for request in requests),
        memory_b=memory_b,
        disk_b=_sum_amounts("requestDisk", [(part, part.settings.request.disk_b) for part in parts]),
        walltime_s=_sum_amounts("requestWalltime", [(part, part.settings.request.walltime_s) for part in parts]),
        resources={name: max(request.resources.get(name, 0) for request in requests) for name in names},
    )


def _max_amount(amounts: Iterable[_Amount | None]) -> _Amount | None:
    return max((amount for amount in amounts if amount is not None), default=None)


def _sum_amounts(key: str, amounts: Sequence[tuple[TaskGroup, _Amount | None]]) -> _Amount | None:
    """Sum over all tasks; a part without a value adds nothing."""
    for part, amount in amounts:
        if key in part.cluster_keys:
            return amount
    known_amounts = [amount * part.tasks for part, amount in amounts if amount is not None]
    return sum(known_amounts) if known_amounts else None


def _combine_attributes(
    name: str, parts: Sequence[TaskGroup], biggest: Sequence[JobSettings]
) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue | None] = {
        "memoryMultiplier": _max_amount(_number_attribute(settings, "memoryMultiplier") for settings in biggest),
        "requestMemoryMax": _max_amount(_number_attribute(part.settings, "requestMemoryMax") for part in parts),
    }
    for key in ATTRIBUTE_KEYS:
        found[key] = _common_value(name, key, parts, _attribute(key))
    return {key: value for key, value in found.items() if value is not None}


def _number_attribute(settings: JobSettings, key: str) -> float | None:
    value = settings.attributes.get(key)
    return value if isinstance(value, int | float) else None


def _attribute(key: str) -> Callable[[JobSettings], AttributeValue | None]:
    return lambda settings: settings.attributes.get(key)


def _combine_maps(
    name: str,
    parts: Sequence[TaskGroup],
    map_of: Callable[[JobSettings], Mapping[str, _Value]],
    *,
    prefix: str = "",
    origin_prefix: str,
) -> dict[str, _Value]:
    """Merge maps of all parts; a key must have the same value in all parts that have it."""
    maps = [(map_of(part.settings), part) for part in parts]
    return {
        key: _single_value(
            f"{prefix}{key}",
            name,
            [
                (values[key], part.label, part.origins.get(f"{origin_prefix}{key}"))
                for values, part in maps
                if key in values
            ],
        )
        for key in dict.fromkeys(key for values, _ in maps for key in values)
    }


def _common_value(
    name: str,
    key: str,
    parts: Sequence[TaskGroup],
    value_of: Callable[[JobSettings], _Value],
    *,
    everywhere: bool = False,
) -> _Value | None:
    """The value of a key, which must be equal in all parts that have one; with `everywhere`, in all parts."""
    found = [(value_of(part.settings), part) for part in parts]
    settled = [
        (value, part.label, part.origins.get(key))
        for value, part in found
        if everywhere or (value is not None and key in part.origins)
    ]
    return _single_value(key, name, settled) if settled else None


def _single_value(key: str, name: str, values: Sequence[tuple[_Value, str, Origin | None]]) -> _Value:
    """The only value of a key.

    Raises
    ------
    ConfigError
        There are several values.
    """
    first = values[0][0]
    other = next((each for each in values if each[0] != first), None)
    if other is None:
        return first
    shown: dict[str, str] = {}
    for value, label, origin in values:
        shown.setdefault(
            _value_text(value),
            f"{_value_text(value)} for '{label}'" + (f" ({origin})" if origin and origin.file else ""),
        )
    raise ConfigError(
        f"Inconsistent value for {key} in cluster {name}: " + ", ".join(shown.values()),
        origin=other[2],
        hint=f"Give the labels the same value, or set 'cluster.{name}.{key}' for the job as a whole.",
    )


def _value_text(value: object) -> str:
    if value is None:
        return "none"
    return quote_value(", ".join(map(str, value)) if isinstance(value, tuple) else value)
