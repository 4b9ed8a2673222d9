"""Users of the machine, made by a test that runs as root: each has a number, a home and a command line."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from tests.command import CommandResult, compiled_modules

import longshore

_ROOT = Path(longshore.__file__).resolve().parents[2]
_UNUSED_UID = 61_000
"""A number that no user database has."""
_TAG = sys.implementation.cache_tag
_LEFT_OUT = shutil.ignore_patterns("site-packages", "test", "idlelib", "tkinter", "config-*", "*.a")


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user.

    `python` is an interpreter that has the package and that every user may start.
    """

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: Path
    python: Path

    @property
    def state(self) -> Path:
        """Folder of Longshore's state."""
        return self.home / ".local" / "state" / "longshore"

    def run(self, *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> CommandResult:
        """Run a program as this user."""
        done = subprocess.run(
            [*map(str, words)],
            cwd=cwd or self.home,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(self.home),
                "LC_ALL": "C.UTF-8",
                # Without compiled modules a command takes several times as long.
                **_compiled_modules(self.python),
                **library_path(self.python),
                **(env or {}),
            },
            user=self.uid,
            group=self.gid,
            extra_groups=self.groups,
            umask=0o022,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return CommandResult(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def __call__(
        self, *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command of Longshore as this user."""
        return self.run(self.python, "-P", "-m", "longshore", *words, cwd=cwd, env=env)


def find_python(place: Path) -> Path | None:
    """Return an interpreter with the package that every user may start; makes one below `place` if need be."""
    if _serves(python := Path(sys.executable)) or _serves(python := _copy_python(place)):
        return python
    return None


def _compiled_modules(python: Path) -> dict[str, str]:
    """Return the variables with which other users find compiled modules, and write none: a copy has them beside it."""
    return {"PYTHONDONTWRITEBYTECODE": "1", **(compiled_modules() if python == Path(sys.executable) else {})}


def library_path(python: Path) -> dict[str, str]:
    """Return the variable with which a copied interpreter finds its own library, not that of another Python."""
    library = python.parent.parent / "lib"
    return {"LD_LIBRARY_PATH": str(library)} if list(library.glob("libpython*.so*")) else {}


def _serves(python: Path) -> bool:
    try:
        done = subprocess.run(
            [python, "-P", "-m", "longshore", "--version"],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": "/", **library_path(python)},
            user=_UNUSED_UID,
            group=_UNUSED_UID,
            extra_groups=(),
            capture_output=True,
            timeout=60,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def _copy_python(place: Path) -> Path:
    """Copy the interpreter, the package and what it requires: a home of root's is closed to others."""
    version = f"python{sysconfig.get_python_version()}"
    source, target = Path(sys.base_prefix), place / "python"
    (target / "bin").mkdir(parents=True)
    (target / "lib").mkdir()
    python = target / "bin" / version
    _copy_file(Path(sys.executable).resolve(), python)
    for library in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython*.so*"):
        _copy_file(library, target / "lib" / library.name)
    shutil.copytree(
        sysconfig.get_path("stdlib", vars={"installed_base": str(source), "base": str(source)}),
        target / "lib" / version,
        ignore=_LEFT_OUT,
        copy_function=_copy_file,
    )
    packages = target / "lib" / version / "site-packages"
    packages.mkdir()
    for name in sorted(_requirements("longshore")):
        _copy_distribution(metadata.distribution(name), packages)
    for folder in ("python", "etc", "bin", "config"):
        shutil.copytree(_ROOT / folder, place / "checkout" / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for module in (_ROOT / "python").rglob("*.py"):
        _copy_compiled(module, place / "checkout" / module.relative_to(_ROOT))
    (packages / "longshore.pth").write_text(f"{place / 'checkout' / 'python'}\n", "utf-8")
    return python


def _copy_compiled(module: Path, copy: Path) -> None:
    """Put what is compiled of a module beside a copy of it, which has its time and size, so that both fit."""
    name = Path("__pycache__", f"{module.stem}.{_TAG}.pyc")
    places = (Path(cache_from_source(str(module))), module.parent / name)
    if compiled := next(filter(Path.exists, places), None):
        (copy.parent / name).parent.mkdir(exist_ok=True)
        _copy_file(compiled, copy.parent / name)


def _requirements(name: str) -> set[str]:
    """Names of the distributions that one needs, without itself."""
    found: set[str] = set()
    left = [name]
    while left:
        for requirement in metadata.requires(left.pop()) or ():
            if "extra ==" in requirement:
                continue
            needed = requirement.partition(";")[0]
            needed = "".join(letter if letter.isalnum() or letter in "-_." else " " for letter in needed).split()[0]
            try:
                metadata.distribution(needed)
            except metadata.PackageNotFoundError:
                continue
            if needed not in found:
                found.add(needed)
                left.append(needed)
    return found


def _copy_distribution(distribution: metadata.Distribution, packages: Path) -> None:
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file)))
        if not {"..", "__pycache__"}.intersection(file.parts) and source.is_file():
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_file(source, target)
            if source.suffix == ".py":
                _copy_compiled(source, target)


def _copy_file(source: str | Path, target: str | Path) -> None:
    """Link a file to a second name; copy it where that is another file system or the file is closed to others."""
    try:
        if Path(source).stat().st_mode & stat.S_IROTH:
            Path(target).hardlink_to(source)
            return
    except OSError:
        pass
    shutil.copy2(source, target)
    Path(target).chmod(Path(target).stat().st_mode | stat.S_IROTH)
