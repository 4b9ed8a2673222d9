"""Environment variables of jobs, and the search for programs on a job's ``PATH``.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "environments":
    from longshore.engine.keeper.spawner import encode_variable
else:
    # The copy beside the keeper is not in a package.
    from spawner import encode_variable

if TYPE_CHECKING:
    from longshore.engine.keeper.protocol import EnvironmentOrder, MemberOrder


class Environments:
    """Environments that orders refer to, by number."""

    def __init__(self) -> None:
        self.variables: dict[int, dict[str, str]] = {}
        self.pairs: dict[int, dict[str, bytes]] = {}
        """The same environments as the spawner takes them, without those that it cannot take."""
        self.programs: dict[tuple[str, str], str] = {}
        """Path of a program by its name and PATH."""

    def add(self, order: EnvironmentOrder) -> None:
        """Add an environment."""
        number = order["id"]
        self.variables[number] = {**self.variables.get(order.get("on", -1), {}), **order["env"]}
        try:
            self.pairs[number] = {name: encode_variable(name, value) for name, value in self.variables[number].items()}
        except ValueError:
            # Starts with this environment use the standard library, which reports the error.
            self.pairs.pop(number, None)

    def program(self, member: MemberOrder) -> str:
        """Return a program's path, as execvp finds it with the job's own PATH; ValueError without a command."""
        if not member["argv"]:
            raise ValueError("the command has no words")
        word = member["argv"][0]
        if "/" in word:
            return word
        environment = self.variables[member["e"]]
        path = member["v"].get("PATH", environment.get("PATH", os.defpath))
        return self.programs.get((word, path)) or self.find(word, path, member["cwd"])

    def find(self, word: str, path: str, start: str) -> str:
        """Find a program in the folders of a PATH, relative ones from `start`; FileNotFoundError if it is missing."""
        for folder in path.split(os.pathsep):
            found = os.path.join(start, folder, word)
            if os.path.isfile(found) and os.access(found, os.X_OK):
                if os.path.isabs(folder):
                    self.programs[word, path] = found
                return found
        raise FileNotFoundError(errno.ENOENT, "no such program on the PATH of the job", word)
