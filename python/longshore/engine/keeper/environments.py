"""The environments that jobs are started with, and the programs that are found by them.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "environments":
    from longshore.engine.keeper.spawner import pair
else:
    # Beside the keeper, there is no package.
    from spawner import pair

if TYPE_CHECKING:
    from longshore.engine.keeper.protocol import EnvironmentOrder, MemberOrder


class Environments:
    """The environments that orders refer to, by number."""

    def __init__(self) -> None:
        self.variables: dict[int, dict[str, str]] = {}
        self.pairs: dict[int, dict[str, bytes]] = {}
        """The same as the spawner takes them; not there where that cannot be."""
        self.programs: dict[tuple[str, str], str] = {}
        """Path of a program by its name and PATH."""

    def add(self, order: EnvironmentOrder) -> None:
        """Take an environment."""
        number = order["id"]
        self.variables[number] = {**self.variables.get(order.get("on", -1), {}), **order["env"]}
        try:
            self.pairs[number] = {name: pair(name, value) for name, value in self.variables[number].items()}
        except ValueError:
            # Who uses it is told by the standard library what is wrong with it.
            self.pairs.pop(number, None)

    def program(self, member: MemberOrder) -> str:
        """Path of a program, as execvp would find it with the job's own PATH."""
        if not member["argv"]:
            raise ValueError("the command has no words")
        word = member["argv"][0]
        if "/" in word:
            return word
        environment = self.variables[member["e"]]
        path = member["v"].get("PATH", environment.get("PATH", os.defpath))
        return self.programs.get((word, path)) or self.find(word, path, member["cwd"])

    def find(self, word: str, path: str, start: str) -> str:
        """Look a program up in the folders of a PATH, those that are relative from where the job starts."""
        for folder in path.split(os.pathsep):
            found = os.path.join(start, folder, word)
            if os.path.isfile(found) and os.access(found, os.X_OK):
                if os.path.isabs(folder):
                    self.programs[word, path] = found
                return found
        raise FileNotFoundError(errno.ENOENT, "no such program on the PATH of the job", word)
