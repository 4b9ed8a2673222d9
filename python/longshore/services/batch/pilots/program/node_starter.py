"""Starter of pilots on all hosts of an allocation, a program of its own because it runs where no pilot does yet.

It runs on the first host, as ``python -I -S -B node_starter.py NODES HINT START ... -- COMMAND ... -- HOST ...``: the
number of hosts, what to do where there is another number, the words that start a command on the host behind them, the
command, which gets the number of its node as its last word, and the hosts. A host may be listed more than once. The
first one's pilot is a child of this process. The program needs nothing but the standard library.

If a pilot ends with an error, all others are ended, and so is the allocation: the engine learns at once what is lost.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_GRACE_S = 10
"""Time from the signal that ends the other pilots to the one that kills them."""
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGXCPU)
"""Signals by which schedulers announce the end of an allocation; a pilot ends by each of them."""
_BAD_ALLOCATION = 78


class NodeStarter:
    """Starts a command on each host: on the first by itself, and on others by the words of `start`."""

    def __init__(self, start: Sequence[str], command: Sequence[str], hosts: Sequence[str]) -> None:
        self._start, self._command, self._hosts = list(start), list(command), hosts
        if "/" in self._start[0] and not os.access(self._start[0], os.X_OK):
            # The folder of the submit host may not be there on this one.
            self._start[0] = os.path.basename(self._start[0])
        self._children: dict[int, str] = {}
        """Hosts of the processes that run, by their ids."""
        self._status = 0

    def run(self) -> int:
        """Start all, wait for all, and return 0 if all ended well, else the first other status."""
        for number in _FORWARDED:
            signal.signal(number, self._forward)
        signal.signal(signal.SIGALRM, self._kill)
        for node, host in enumerate(self._hosts):
            if self._status:
                break
            self._begin(node, host)
        while self._children:
            pid, status = os.wait()
            host = self._children.pop(pid, "")
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            if host and code:
                self._fail(code, "the pilot on '%s' ended with status %d" % (host, code))
        return self._status

    def _begin(self, node: int, host: str) -> None:
        words = [*([*self._start, host] if node else []), *self._command, str(node)]
        library = ctypes.CDLL(None)

        def die_with_parent() -> None:
            library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)

        try:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)  # noqa: PLW1509
        except OSError as error:
            self._fail(126, "'%s' cannot start a pilot on '%s': %s" % (words[0], host, error.strerror or error))
            return
        child.returncode = 0  # `run` waits for it.
        self._children[child.pid] = host

    def _fail(self, status: int, message: str) -> None:
        """Note the first failure, and end all pilots."""
        if not self._status:
            self._status = status
            sys.stderr.write("longshore: %s: the allocation ends\n" % message)
            self._send(signal.SIGTERM)
            signal.alarm(_GRACE_S)

    def _forward(self, number: int, _: object) -> None:
        self._send(number)

    def _kill(self, *_: object) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        for pid in list(self._children):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                # It is over, and `run` is about to take its status.
                pass


def split_words(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the words of the start, the command, and the hosts, each host once."""
    first = words.index("--")
    second = words.index("--", first + 1)
    return list(words[:first]), list(words[first + 1 : second]), list(dict.fromkeys(words[second + 1 :]))


def main() -> None:
    """Start the pilots of one allocation."""
    nodes, hint = int(sys.argv[1]), sys.argv[2]
    start, command, hosts = split_words(sys.argv[3:])
    if len(hosts) != nodes:
        listed = ", ".join(hosts) or "none"
        sys.stderr.write("longshore: the allocation needs %d hosts, and has %s. %s\n" % (nodes, listed, hint))
        sys.exit(_BAD_ALLOCATION)
    sys.exit(NodeStarter(start, command, hosts).run())


if __name__ == "__main__":
    main()
