"""Launchers: how a command is started on each of several nodes of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from longshore.model.values import YamlValue


class StepLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """How one call starts a command on all nodes of a job.

    `prefix` is the shell in front of the command, and `index` the shell for the number of a node, from 0. `settings`
    are those of such a job, in the service's own words.
    """

    prefix: str
    index: str
    settings: Mapping[str, YamlValue] = {}


class HostLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """How a command is started on the hosts of a job, one by one.

    `start` has the words in front of the name of a host, which is in front of the command. `hosts` is shell for the
    hosts, the one on which the job's script runs first. `hint` is what to do where a job gets other hosts than asked
    for. The number of hosts is the job's setting ``nodeCount``.
    """

    start: tuple[str, ...]
    hosts: str
    hint: str


NodeLauncher: TypeAlias = StepLauncher | HostLauncher
