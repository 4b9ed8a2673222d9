"""Rules by which the files of a job are staged: copied to a scratch directory, and published from it."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from collections.abc import Mapping

import msgspec


class StagingRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shell lines that transfer a file from ``"$1"`` to ``"$2"``; without one, files are copied.

    Attributes
    ----------
    fetch, send
        Lines for inputs and for outputs on file systems that the host of the job sees.
    urls
        Line per scheme of URLs; files at other URLs are not staged.
    """

    fetch: str = ""
    send: str = ""
    urls: Mapping[str, str] = msgspec.field(default_factory=dict)
