"""Exchanges the names of nodes between the processes of a job by PMI-1, as MPI does when it starts."""

from __future__ import annotations

import os
import socket
import sys


def main() -> None:
    """Tell rank and node of this process, and the node of the next rank."""
    rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
    channel = socket.socket(fileno=int(os.environ["PMI_FD"]))
    reader = channel.makefile("r", encoding="ascii")

    def ask(text: str) -> dict[str, str]:
        channel.sendall(f"{text}\n".encode("ascii"))
        return dict(word.split("=", 1) for word in reader.readline().split() if "=" in word)

    ask("cmd=init pmi_version=1 pmi_subversion=1")
    name = ask("cmd=get_my_kvsname")["kvsname"]
    node = os.environ["SLURMD_NODENAME"]
    ask(f"cmd=put kvsname={name} key=node{rank} value={node}")
    ask("cmd=barrier_in")
    following = ask(f"cmd=get kvsname={name} key=node{(rank + 1) % size}")["value"]
    sys.stdout.write(f"rank {rank} on {node} before {following}\n")
    sys.stdout.flush()
    ask("cmd=finalize")


main()
