"""Requires-Dist lines as values: each parsed once, and of a bad one why it is bad, never an exception."""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion

from rocwright.check.environments import PythonPlatform

# Whether a marker compares what can be compared does not depend on where it is asked.
_SOMEWHERE = PythonPlatform("cp312", "cp312", "linux_x86_64")
_MOST_KEPT = 1 << 14


_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']*)["']|["']([^"']*)["']\s*==\s*extra""")


@lru_cache(maxsize=_MOST_KEPT)
def read_requirement(text: str) -> Requirement | str:
    """The requirement that a text stands for, not to be changed; or, as text, why it is none.

    None is what is no PEP 508 text, what no parser reads to its end, and a marker that installers cannot
    evaluate (`os_name ~= 'nt'`): they end with an error of their own there.
    """
    try:
        requirement = Requirement(text)
        _SOMEWHERE.applies(requirement)
    except InvalidRequirement as error:
        return str(error).splitlines()[0]
    except RecursionError:
        return "its marker is nested too deeply to be read"
    except UndefinedEnvironmentName as error:
        return f"its marker asks for {error}, which no environment tells"
    except (UndefinedComparison, InvalidVersion):
        return f"its marker compares what cannot be compared: {requirement.marker}"
    return requirement


def named_extras(requirement: Requirement) -> tuple[str, ...]:
    """The extras that a requirement's marker compares with, as it spells them; each once."""
    found = _EXTRA.finditer(str(requirement.marker or ""))
    return tuple(dict.fromkeys(match.group(1) or match.group(2) or "" for match in found))
