"""Where the files of a set can be installed, from the tags of its wheels; what they require there.

Each Requires-Dist line is parsed once; of a bad line it is told why it is bad, and never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from rocwright.check.facts import Facts
from rocwright.wheel.tags import STABLE

# manylinux tags say how old a C library may be; whoever installs has a new library.
_LINUX = re.compile(r"manylinux(?:1|2010|2014|_[0-9]+_[0-9]+)_(?P<machine>\w+)")
_INTERPRETER = re.compile(r"cp3(?P<minor>[0-9]+)")
# What markers say of a platform, by how its tag begins.
_SYSTEMS = {
    "win": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
    "macosx": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
    "": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
}
_MACHINES = {"win_amd64": "AMD64", "win32": "x86", "win_arm64": "ARM64"}
# Any will do where nothing in a set is for one Python or platform only.
_ANY_PYTHON, _ANY_PLATFORM = "cp312", "linux_x86_64"
MOST_KEPT = 1 << 14
# Python makes no number of more than 4300 digits, and no version has one of a hundred.
_ENDLESS = re.compile(r"[0-9]{100}")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']*)["']|["']([^"']*)["']\s*==\s*extra""")


class PythonPlatform(msgspec.Struct, frozen=True, order=True):
    """One Python on one platform, as tags spell them: `cp311`, `cp311` or `cp313t`, `linux_x86_64`."""

    python: str
    abi: str
    platform: str

    def __str__(self) -> str:
        return f"{self.abi} on {self.platform}"

    def markers(self) -> Mapping[str, str]:
        """The values that environment markers compare with."""
        minor = _minor(self.python)
        system = next(values for start, values in _SYSTEMS.items() if self.platform.startswith(start))
        return {
            **system,
            "implementation_name": "cpython",
            "implementation_version": f"3.{minor}.0",
            "platform_machine": _MACHINES.get(self.platform, self.platform.partition("_")[2]),
            "platform_python_implementation": "CPython",
            "platform_release": "6.1.0",
            "platform_version": "1",
            "python_full_version": f"3.{minor}.0",
            "python_version": f"3.{minor}",
        }

    def takes(self, facts: Facts) -> bool:
        """Whether the file can be installed here; an sdist always."""
        return facts.kind == "sdist" or any(self._takes(tag) for tag in facts.tags)

    def _takes(self, tag: str) -> bool:
        python, abi, platform = _parts(tag)
        if platform not in ("any", self.platform):
            return False
        if python.startswith("py"):
            return True
        if not python.startswith("cp3"):
            return False
        unlocked = self.abi.endswith("t")
        if abi in STABLE or (abi == "none" and python != self.python):
            # The limited API holds from one version on; without the lock there is another one.
            return _minor(python) <= _minor(self.python) and abi in ("none", STABLE[unlocked])
        return python == self.python and abi in ("none", self.abi)

    def applies(self, requirement: Requirement, extra: str = "") -> bool:
        """Whether a requirement holds here, for an extra or without any."""
        marker = requirement.marker
        return marker is None or marker.evaluate({**self.markers(), "extra": extra})


def environments_of(files: Iterable[Facts]) -> tuple[PythonPlatform, ...]:
    """Every Python on every platform that some wheel is for; one of each kind where no file names any."""
    parts = [_parts(tag) for facts in files if facts.kind == "wheel" for tag in facts.tags]
    platforms = sorted({platform for _, _, platform in parts} - {"any"}) or [_ANY_PLATFORM]
    bound = {
        (python, abi if abi.startswith("cp") else python, platform)
        for python, abi, platform in parts
        if _INTERPRETER.fullmatch(python) and abi not in STABLE
    }
    found = {
        PythonPlatform(python, abi, each)
        for python, abi, platform in bound
        for each in (platforms if platform == "any" else [platform])
    }
    served = {environment.platform for environment in found}
    # The limited API asks for a Python at least so new.
    limited = [(python, abi) for python, abi, _ in parts if abi in STABLE]
    newest = max([_ANY_PYTHON, *(python for python, _ in limited)], key=_minor)
    without = "t" if {abi for _, abi in limited} == {STABLE[True]} else ""
    pythons = sorted({(one.python, one.abi) for one in found}) or [(newest, newest + without)]
    # Platforms that only wheels for every Python are for.
    found |= {PythonPlatform(*pythons[-1], platform) for platform in platforms if platform not in served}
    return tuple(sorted(found))


def may_meet(first: Facts, second: Facts, environments: Iterable[PythonPlatform]) -> bool:
    """Whether two files can be installed together: of two projects, in one of the environments."""
    return first.project != second.project and any(
        environment.takes(first) and environment.takes(second) for environment in environments
    )


def _parts(tag: str) -> tuple[str, str, str]:
    python, _, rest = tag.partition("-")
    abi, _, platform = rest.partition("-")
    match = _LINUX.fullmatch(platform)
    return python, abi, f"linux_{match['machine']}" if match else platform


def _minor(python: str) -> int:
    match = _INTERPRETER.fullmatch(python)
    return int(match["minor"]) if match else 0


# Whether a marker compares what can be compared does not depend on where it is asked.
_SOMEWHERE = PythonPlatform("cp312", "cp312", "linux_x86_64")


@lru_cache(maxsize=MOST_KEPT)
def read_requirement(text: str) -> Requirement | str:
    """The requirement that a text stands for, not to be changed; or, as text, why it is none.

    None is what is no PEP 508 text, what no parser reads to its end, and a marker that installers cannot
    evaluate (`os_name ~= 'nt'`): they end with an error of their own there.
    """
    if _ENDLESS.search(text) is not None:
        return "a number in it is longer than that of any version"
    try:
        requirement = Requirement(text)
        _SOMEWHERE.applies(requirement)
    except InvalidRequirement as error:
        return str(error).splitlines()[0]
    except RecursionError:
        return "its marker is nested too deeply to be read"
    except UndefinedEnvironmentName as error:
        return f"its marker asks for {error}, which no environment defines"
    except (UndefinedComparison, InvalidVersion):
        return f"its marker compares what cannot be compared: {requirement.marker}"
    return requirement


def read_specifier(text: str | None) -> SpecifierSet | None:
    """What Requires-Python asks for, anything where it says nothing; None for what no installer can read."""
    if text is None:
        return SpecifierSet()
    try:
        return SpecifierSet(text) if _ENDLESS.search(text) is None else None
    except InvalidSpecifier:
        return None


def named_extras(requirement: Requirement) -> tuple[str, ...]:
    """The extras that a requirement's marker compares with, as it spells them; each once."""
    found = _EXTRA.finditer(str(requirement.marker or ""))
    return tuple(dict.fromkeys(match.group(1) or match.group(2) or "" for match in found))
