"""Job profile of a label at a site: shared settings, and templates of settings per job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from longshore.config.profile.command_lines import CommandTemplate
from longshore.config.profile.service_settings import SettingValue, render_settings
from longshore.config.values.arithmetic import evaluate_amount
from longshore.config.values.quantities import parse_count, parse_request_field
from longshore.config.values.templates import Template
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.model.workflow.job import JobSettings
from longshore.model.workflow.request import Request
from longshore.origin import Origin


class JobProfile(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Settings of the jobs of one label at one site, with templates for values that differ per job.

    Attributes
    ----------
    settings
        What they share. Of `JobSettings.attributes`, ``requestMemoryMax`` is in bytes and ``memoryMultiplier`` is there
        only when memory is to grow.
    command
        ``runQuantumCommand``: a shell line, or a program and its arguments; ``None`` where the configuration has none.
    environment
        Variables whose values differ per job.
    request
        Keys of the request whose values differ per job; a resource NAME as ``requestResources.NAME``.
    service_settings
        The map of `JobSettings.service_settings` where a value in it varies per job; else empty.
    origins
        Where the value of each key was written, for keys with a value; a variable NAME as ``environment.NAME``, a key
        NAME of the service's own map as ``own.NAME``.
    cluster_keys
        Keys of the request that the section of the cluster sets, and so for all its tasks together.
    """

    settings: JobSettings
    command: CommandTemplate | None = None
    environment: Mapping[str, Template] = msgspec.field(default_factory=dict)
    request: Mapping[str, Template] = msgspec.field(default_factory=dict)
    service_settings: Mapping[str, SettingValue] = msgspec.field(default_factory=dict)
    origins: Mapping[str, Origin] = msgspec.field(default_factory=dict)
    cluster_keys: frozenset[str] = frozenset()

    def service_settings_of(self, values: Mapping[str, object]) -> Mapping[str, YamlValue]:
        """The service's own map of a job, from the values of its free variables."""
        return (
            render_settings(self.service_settings, values) if self.service_settings else self.settings.service_settings
        )

    def request_of(self, values: Mapping[str, object]) -> Request:
        """The request of a job, from the values of its free variables.

        Raises
        ------
        ConfigError
            With these values, an amount is invalid.
        """
        if not self.request:
            return self.settings.request
        key = self.request_key(values)
        found = self._requests.get(key)
        if found is None:
            found = msgspec.structs.replace(self.settings.request, **self.amounts_of(values))
            self._requests[key] = found
        return found

    def request_key(self, values: Mapping[str, object]) -> tuple[object, ...]:
        """Values that the request of a job uses: jobs with equal ones have equal requests."""
        return tuple([values.get(name) for name in self.request_names])

    @cached_property
    def request_names(self) -> tuple[str, ...]:
        """Names of the free variables that the request uses."""
        return tuple(sorted({name for template in self.request.values() for name in template.names}))

    @cached_property
    def _requests(self) -> dict[tuple[object, ...], Request]:
        """Requests so far, by the values that they use: many jobs share theirs."""
        return {}

    def amounts_of(self, values: Mapping[str, object]) -> dict[str, object]:
        """Fields of the request that differ per job, from the values of a job's free variables.

        Raises
        ------
        ConfigError
            With these values, an amount is invalid.
        """
        amounts: dict[str, object] = {}
        resources: dict[str, int] = {}
        for key, template in self.request.items():
            name, _, resource = key.partition(".")
            try:
                text = evaluate_amount(template.render(values), template.origin)
                if resource:
                    resources[resource] = parse_count(text, key, template.origin)
                else:
                    amounts |= parse_request_field(name, text, template.origin)
            except ConfigError as error:
                raise _add_job(error, template, values) from None
        if resources:
            amounts["resources"] = {**self.settings.request.resources, **resources}
        return amounts


def _add_job(error: ConfigError, template: Template, values: Mapping[str, object]) -> ConfigError:
    """The error of an amount, with the job and the values that it uses: one row of a long table is wrong."""
    used = ", ".join(f"'{name}' is {quote_value(str(values[name]))}" for name in sorted(template.names & values.keys()))
    job = f"in the job '{values['jobName']}', " if "jobName" in values else ""
    return ConfigError(f"{error.message}; {job}{used}", origin=error.origin, hint=error.hint)
