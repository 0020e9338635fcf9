"""A build away from the network: by a namespace of its own where the system allows that, else by variables.

The variables (`decide.environment.fence`) lead curl, git, pip and Python's modules to an address where nobody
listens. A namespace without a network stops every other program as well; ordinary users may make one on most
systems, though not in every container.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rocwright.builder.units.launch import HIP, HOST, runs
from rocwright.errors import CommandFailed, MissingTool
from rocwright.system import process

# What git, curl, Python, pip and the C library say of a network that is not there.
_WANTED = re.compile(
    r"Could not resolve host|Name or service not known|name resolution|getaddrinfo|urlopen error"
    r"|Network is unreachable|Failed to connect to|Connection refused|ProxyError|Could not resolve proxy"
    r"|transport '\w+' not allowed|unable to access '\w+://|No matching distribution found"
    r"|Max retries exceeded"
)


def fence_command(env: Mapping[str, str]) -> tuple[str, ...]:
    """What to put before a command with these variables so that it has no network; nothing where those have
    to do.

    A compiler cache that talks to a server, sccache always does where it is in use, needs the network of this
    machine.
    """
    remote = any(name in env for name in ("CCACHE_REMOTE_STORAGE", "CCACHE_SECONDARY_STORAGE"))
    return () if remote or "sccache" in _launched(env) else _namespace()


def _launched(env: Mapping[str, str]) -> set[str]:
    """Names of the programs that run the compilers, whoever put them there."""
    words = [word for name in (*HOST, *HIP) for word in env.get(name, "").split(";")]
    words += [word for name in ("CC", "CXX", HIP[1]) for word in env.get(name, "").split()]
    return {Path(text).name for word in words for text in (word, *runs(Path(word)))}


@cache
def _namespace() -> tuple[str, ...]:
    program = shutil.which("unshare") if sys.platform == "linux" else None
    if program is None:
        return ()
    command = (program, "--user", "--map-current-user", "--net")
    try:
        process.run([*command, "true"])
    except (CommandFailed, MissingTool):
        return ()
    return command


def wants_network(said: str) -> bool:
    """Whether the last lines of a build tell that it did not reach the network."""
    return _WANTED.search(said) is not None
