"""Environment variables of jobs, and the search for programs on a job's ``PATH``.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "environments":
    from longshore.engine.keeper.kernel import system
    from longshore.engine.keeper.spawner import encode_variable, make_words
else:
    # The copy beside the keeper is not in a package.
    from kernel import system
    from spawner import encode_variable, make_words

if TYPE_CHECKING:
    from longshore.engine.keeper.protocol import EnvironmentOrder, MemberOrder
    from longshore.engine.keeper.spawner import Words


class Environments:
    """Environments that orders refer to, by number."""

    def __init__(self) -> None:
        self.variables: dict[int, dict[str, str]] = {}
        self.encoded: dict[int, dict[str, bytes]] = {}
        """The same environments as the spawner takes them, without those that it cannot take."""
        self.templates: dict[int, tuple[list[str], Words]] = {}
        """Per environment, the names of the variables that its last member added, and its array with room for them."""
        self.programs: dict[tuple[str, str], str] = {}
        """Path of a program by its name and PATH."""

    def add(self, order: EnvironmentOrder) -> None:
        """Add an environment, with a number of its own."""
        number = order["id"]
        self.variables[number] = {**self.variables.get(order.get("on", -1), {}), **order["env"]}
        try:
            self.encoded[number] = {
                name: encode_variable(name, value) for name, value in self.variables[number].items()
            }
        except ValueError:
            # Starts with this environment use the standard library, which reports the error.
            self.encoded.pop(number, None)

    def encode(self, member: MemberOrder, tmp: str) -> Words | None:
        """Return a member's environment as the spawner takes it; ``None`` if the spawner cannot take it."""
        number = member["e"]
        encoded = self.encoded.get(number)
        if encoded is None:
            return None
        added = {**member["v"], "TMPDIR": tmp}
        names = list(added)
        template_names, template = self.templates.get(number, ([], None))
        if template is None or names != template_names:
            shared = [variable for name, variable in encoded.items() if name not in added]
            template = make_words([b""] * len(names) + shared)
            self.templates[number] = names, template
        # A new array for each attempt was the largest part of a start: the texts that attempts share are kept alive by
        # `encoded`, so that a copy of the pointers is enough.
        words = type(template).from_buffer_copy(template)
        for position, (name, value) in enumerate(added.items()):
            words[position] = encode_variable(name, value)
        return words

    def find_program(self, member: MemberOrder) -> str:
        """Return a program's path, as execvp finds it with the job's own PATH; ValueError without a command."""
        if not member["argv"]:
            raise ValueError("the command has no words")
        name = member["argv"][0]
        if "/" in name:
            return name
        environment = self.variables[member["e"]]
        path = member["v"].get("PATH", environment.get("PATH", os.defpath))
        return self.programs.get((name, path)) or self.find(name, path, member["cwd"])

    def find(self, name: str, path: str, start: str) -> str:
        """Find a program in the folders of a PATH, relative ones from `start`; FileNotFoundError if it is missing."""
        for folder in path.split(os.pathsep):
            program = os.path.join(start, folder, name)
            if system.isfile(program) and system.access(program, os.X_OK):
                if os.path.isabs(folder):
                    self.programs[name, path] = program
                return program
        raise FileNotFoundError(errno.ENOENT, "no such program on the PATH of the job", name)
