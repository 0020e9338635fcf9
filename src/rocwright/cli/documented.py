"""The documented scripts: which command each of them stands for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.cli import main
from rocwright.errors import Interrupted


@dataclass(frozen=True)
class Documented:
    """The words of a command; where `failure` is set, every failure ends with that exit code."""

    command: tuple[str, ...]
    failure: int | None = None


# By path in the repository. Builds know the scripts by these names; people know the commands.
DOCUMENTED: Mapping[str, Documented] = {
    "build_tools/compute_rocm_package_version.py": Documented(("sdk", "compute-version")),
    "build_tools/github_actions/python_to_cp_version.py": Documented(("wheel", "cp-version")),
    "build_tools/github_actions/write_torch_versions.py": Documented(("wheel", "torch-versions")),
    "external-builds/pytorch/sanity_check_wheel.py": Documented(("wheel", "sanity-check"), failure=1),
}


def run(script: str, arguments: Sequence[str] | None = None) -> None:
    """Run the command that the script with this path stands for; ends the process."""
    path = Path(script).resolve().as_posix()
    documented = next(value for name, value in DOCUMENTED.items() if path.endswith(f"/{name}"))
    given = sys.argv[1:] if arguments is None else arguments
    try:
        main([*documented.command, *given])
    except SystemExit as ended:
        failed = ended.code not in (None, 0, Interrupted.exit_code)
        raise SystemExit(documented.failure if failed and documented.failure else ended.code) from None
