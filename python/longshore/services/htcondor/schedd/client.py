"""Turns our questions and orders into calls of HTCondor's Python bindings, and what these raise into words of ours."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.contract.context import Unreachable
from longshore.errors import LongshoreError, SubmissionRefusedError, UnreachableError, UsageError
from longshore.services.htcondor.schedd.bindings import bindings, digits, silence, too_old
from longshore.services.htcondor.schedd.errors import ours

_CLOCKS_S: Final = 3600


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that was found.

    Attributes
    ----------
    name
        What it is called.
    version
        Its version, in digits; empty where it says none.
    ad
        What the bindings want to be given to talk to it.
    """

    name: str
    version: str
    ad: Any


class Dagman(msgspec.Struct, frozen=True, kw_only=True):
    """The job of DAGMan as a schedd took it."""

    cluster: int
    schedd: str
    global_id: str


class CondorClient:
    """The schedd, the collector, and what of HTCondor is installed here.

    Parameters
    ----------
    schedd
        Name of the schedd; empty for that of this host.
    pool
        Host of the collector; empty for that of the configuration.
    """

    def __init__(self, *, schedd: str = "", pool: str = "") -> None:
        self._name = schedd
        self._pool = pool

    # ----------------------------------------------------------------------------------------------------- what is here

    def version(self) -> str:
        """Version of the bindings, in digits.

        Raises
        ------
        ServiceError
            They are not installed, too old, or find no configuration.
        """
        return digits(str(bindings().version()))

    def setting(self, name: str) -> str:
        """What the configuration of this host says; empty where it says nothing."""
        value = bindings().param.get(name)
        return "" if value is None else str(value)

    def filled_in(self, description: str) -> dict[str, str]:
        """The commands of a submit description, with their macros filled in; nobody is asked."""
        with ours("HTCondor", refused="a submit description"):
            submit = bindings().Submit(description)
            return {name: submit.expand(name) for name in submit.keys()}  # noqa: SIM118 - it is no mapping

    def is_expression(self, text: str) -> bool:
        """Whether HTCondor can read a text as an expression; nobody is asked."""
        try:
            bindings().classad.ExprTree(text)
        except Exception:  # noqa: BLE001 - the bindings raise a class of their own
            return False
        return True

    def require_constraint(self, text: str) -> None:
        """See that HTCondor can read what somebody passes through as a constraint; nobody is asked.

        Raises
        ------
        UsageError
            It cannot.
        """
        if text and not self.is_expression(text):
            raise UsageError(
                f"'--pass-thru' is '{text}', which HTCondor cannot read as a constraint",
                hint='One is like: bps_campaign == "quick" && QDate > 1763630000',
            )

    def schedd(self) -> Located:
        """The schedd.

        Raises
        ------
        UnreachableError
            It cannot be found, or nobody says where it is.
        """
        htcondor = bindings()
        what = f"the schedd '{self._name}'" if self._name else "the schedd of this host"
        with ours(what):
            collector = htcondor.Collector(self._pool) if self._pool else htcondor.Collector()
            kind = htcondor.DaemonType.Schedd
            ad = collector.locate(kind, self._name) if self._name else collector.locate(kind)
        if ad is None:
            raise UnreachableError(
                f"{what} is not known to the collector", hint="'condor_status -schedd' names those it knows."
            )
        return _located(ad)

    def schedds(self) -> list[str]:
        """Names of all schedds that the collector knows.

        Raises
        ------
        UnreachableError
            It does not answer.
        """
        htcondor = bindings()
        with ours("the collector"):
            collector = htcondor.Collector(self._pool) if self._pool else htcondor.Collector()
            return sorted(str(ad["Name"]) for ad in collector.locateAll(htcondor.DaemonType.Schedd))

    def collector(self) -> Located:
        """The collector, once it has answered.

        Raises
        ------
        UnreachableError
            It does not answer.
        """
        htcondor = bindings()
        with ours(f"the collector '{self._pool or self.setting('COLLECTOR_HOST')}'"):
            collector = htcondor.Collector(self._pool) if self._pool else htcondor.Collector()
            found = collector.query(htcondor.AdType.Collector, projection=["Name", "CondorVersion", "MyAddress"])
            if not found:
                raise UnreachableError(f"the collector '{self._pool}' does not say who it is")
            return _located(found[0])

    def machines(self, attributes: Sequence[str]) -> list[Mapping[str, Any]]:
        """The machines of the pool, those attributes of each.

        Raises
        ------
        UnreachableError
            The collector does not answer.
        """
        htcondor = bindings()
        with ours("the collector"):
            collector = htcondor.Collector(self._pool) if self._pool else htcondor.Collector()
            ads = collector.query(htcondor.AdType.Startd, projection=list(attributes))
            return [_plain(ad, attributes) for ad in ads]

    def authenticated(self, located: Located) -> Mapping[str, str]:
        """By what method, and as whom, a daemon takes orders from us.

        Raises
        ------
        ServiceError
            It does not, or does not answer.
        """
        htcondor = bindings()
        with ours(f"'{located.name}'"):
            ad = htcondor.ping(located.ad, "WRITE")
            names = ("AuthMethods", "AuthenticatedName", "MyRemoteUserName", "AuthorizationSucceeded")
            return {name: str(value) for name, value in _plain(ad, names).items()}

    # ----------------------------------------------------------------------------------------------------------- submit

    def submit_dag(self, dag: Path, options: Mapping[str, str | int], attributes: Mapping[str, str]) -> Dagman:
        """Hand a DAG to DAGMan.

        Parameters
        ----------
        dag
            The file.
        options
            Those of `condor_submit_dag`.
        attributes
            Lines for the job of DAGMan itself.

        Raises
        ------
        SubmissionRefusedError
            It was not taken.
        UnreachableError
            There is nobody to take it.
        """
        htcondor = bindings()
        located = self.schedd()
        if old := too_old(located.version):
            raise SubmissionRefusedError(old, hint="Submit from an access point with HTCondor 24 or later.")
        with ours(f"the schedd '{located.name}'", refused="the DAG"):
            # What the DAG names is looked for from where this process is.
            with chdir(dag.parent), silence():
                submit = htcondor.Submit.from_dag(str(dag), {"dagman": self._dagman(), **options})
            submit["initialdir"] = str(dag.parent)
            for name, value in attributes.items():
                submit[name] = value
            schedd = htcondor.Schedd(located.ad)
            cluster = int(schedd.submit(submit).cluster())
        found = self.jobs(f"ClusterId == {cluster}", ("GlobalJobId",))
        names = [] if isinstance(found, Unreachable) else [str(ad.get("GlobalJobId", "")) for ad in found]
        return Dagman(cluster=cluster, schedd=located.name, global_id=names[0] if names else "")

    def require_answer(self) -> None:
        """See that the schedd answers.

        Raises
        ------
        UnreachableError
            It does not.
        """
        located = self.schedd()
        with ours(f"the schedd '{located.name}'"):
            bindings().Schedd(located.ad).query("false", projection=["ClusterId"])

    def arrived(self, constraint: str, *, since: float) -> Dagman | None:
        """A job that meets a constraint, in the queue or among those that have left it since a moment.

        Raises
        ------
        UnreachableError
            The schedd does not answer.
        """
        names = ("ClusterId", "GlobalJobId")
        found = self.jobs(constraint, names)
        if isinstance(found, Unreachable):
            raise UnreachableError(f"whether a DAG arrived cannot be asked: {found.why}", hint="Try again later.")
        # All that is older is not looked at: a history may be long. Clocks of two hosts need not agree.
        ads = found or self.history(constraint, names, since=f"EnteredCurrentStatus < {int(since) - _CLOCKS_S}")
        if not ads:
            return None
        return Dagman(
            cluster=int(ads[0]["ClusterId"]), schedd=self.schedd().name, global_id=str(ads[0].get("GlobalJobId", ""))
        )

    def _dagman(self) -> str:
        """The program, which the bindings alone would look for in ``PATH``."""
        path = self.setting("DAGMAN") or f"{self.setting('BIN')}/condor_dagman"
        if not os.access(path, os.X_OK):
            raise SubmissionRefusedError(
                f"there is no program '{path}', which runs DAGs",
                hint="Submit where HTCondor's own programs are installed; the Python package alone has no DAGMan.",
            )
        return path

    # --------------------------------------------------------------------------------------------------- ask and order

    def jobs(self, constraint: str, attributes: Sequence[str]) -> list[Mapping[str, Any]] | Unreachable:
        """The jobs in the queue that meet a constraint."""
        try:
            located = self.schedd()
            with ours(f"the schedd '{located.name}'"):
                schedd = bindings().Schedd(located.ad)
                return [_plain(ad, attributes) for ad in schedd.query(constraint, projection=list(attributes))]
        except LongshoreError as error:
            return Unreachable(why=error.message)

    def history(
        self, constraint: str, attributes: Sequence[str], *, most: int = 1, since: str | None = None
    ) -> list[Mapping[str, Any]]:
        """Jobs that have left the queue, newest first.

        Parameters
        ----------
        constraint
            Which.
        attributes
            What of each.
        most
            How many at most; -1 is any number.
        since
            Expression that a job meets with which the looking ends.

        Raises
        ------
        ServiceError
            The schedd does not answer.
        """
        located = self.schedd()
        with ours(f"the schedd '{located.name}'"):
            schedd = bindings().Schedd(located.ad)
            return [_plain(ad, attributes) for ad in schedd.history(constraint, list(attributes), most, since)]

    def act(self, action: str, constraint: str, reason: str) -> int:
        """Order something of all jobs that meet a constraint; return how many obeyed.

        Parameters
        ----------
        action
            ``Remove``, ``RemoveX``, ``Hold`` or ``Release``.
        constraint
            Which jobs.
        reason
            Why, in words.

        Raises
        ------
        ServiceError
            The schedd does not take the order.
        """
        htcondor = bindings()
        located = self.schedd()
        with ours(f"the schedd '{located.name}'"):
            schedd = htcondor.Schedd(located.ad)
            # A reason that is no pair is dropped by version 25.14.
            answer = schedd.act(getattr(htcondor.JobAction, action), constraint, (reason, 0))
            return int(answer["TotalSuccess"]) if answer is not None else 0

    def edit(self, constraint: str, attribute: str, value: str) -> int:
        """Change an attribute of all jobs that meet a constraint; return how many there are.

        Raises
        ------
        ServiceError
            The schedd does not take the order.
        """
        htcondor = bindings()
        located = self.schedd()
        with ours(f"the schedd '{located.name}'"):
            answer = htcondor.Schedd(located.ad).edit(constraint, attribute, value)
            return int(getattr(answer, "count", answer) or 0)

    def _dagman_here(self, cluster: int) -> Any:
        """DAGMan's job, for orders to itself: the bindings look for it at the schedd of this host, and nowhere else.

        Raises
        ------
        SubmissionRefusedError
            It is at another.
        """
        if self._name:
            there = self.schedd().name
            try:
                here = CondorClient().schedd().name
            except UnreachableError:
                here = ""
            if there.lower() != here.lower():
                raise SubmissionRefusedError(
                    f"DAGMan (job {cluster}) takes orders only on the host of its schedd, which is '{there}'",
                    hint=f"Give the order there. This host has {f'the schedd {here!r}' if here else 'no schedd'}.",
                )
        return bindings().DAGMan(cluster)

    def steer_dag(self, cluster: int, *, halt: str | None) -> None:
        """Have DAGMan submit nothing more, or go on.

        Parameters
        ----------
        cluster
            Its job.
        halt
            Why it is to stop; ``None`` has it go on.

        Raises
        ------
        ServiceError
            It does not take the order.
        """
        dagman = self._dagman_here(cluster)
        # One that is halted, and not paused, ends when nothing of it is in the queue.
        with ours("DAGMan"):
            done, said = dagman.resume() if halt is None else dagman.halt(halt, pause=True)
        if not done:
            raise UnreachableError(f"DAGMan (job {cluster}) does not take the order: {said}")

    def throttle_dag(self, cluster: int, most: int) -> None:
        """Have DAGMan submit no more than so many jobs at once; 0 is any number.

        Parameters
        ----------
        cluster
            Its job.
        most
            The number.

        Raises
        ------
        ServiceError
            It does not take the order.
        """
        dagman = self._dagman_here(cluster)
        with ours("DAGMan"):
            said = dagman.throttle(max_nodes=most)
        if isinstance(said, str):
            raise UnreachableError(f"DAGMan (job {cluster}) does not take the order: {said}")


def quoted(text: str) -> str:
    """A text as a literal of ClassAds."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _located(ad: Any) -> Located:
    return Located(
        name=str(ad.get("Name", "")),
        version=digits(str(ad.get("CondorVersion", ""))),
        ad=ad,
    )


def _plain(ad: Any, attributes: Sequence[str]) -> dict[str, Any]:
    """The attributes an ad has a value for."""
    found = {}
    for name in attributes:
        value = ad.eval(name) if name in ad else None
        if value is None or type(value).__name__ == "Value":
            # Undefined, or an error.
            continue
        found[name] = value
    return found
