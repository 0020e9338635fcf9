"""What earlier builds left in a project's directory, and what of it must not go into the next wheel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.isolation import compiler_environment, outcome_environment
from rocwright.builder.run.toolchain import rocm_identity, tools
from rocwright.builder.run.tree import state_digest
from rocwright.builder.units.launch import PART
from rocwright.system.files import write_text

# In the directory `build`: what it was configured for, and with which compilers its objects were made.
_CONFIGURED_FOR = ".rocwright-configured"
_COMPILED_WITH = ".rocwright-compiled"
# Where setuptools collects the files of a wheel.
_COLLECTED = ("lib.*", "bdist.*")


class Leftovers:
    """The directory `build` of a project, for one plan."""

    def __init__(self, plan: BuildPlan, python: Path, rocm: Rocm | None) -> None:
        self.plan = plan
        self.build = Path(plan.directory) / "build"
        env = outcome_environment(os.environ, plan.env)
        read = compiler_environment(env)
        # A launcher changes no wheel, but CMake reads its variable only the first time.
        env |= {name: value for name, value in plan.env.items() if name.endswith("_LAUNCHER")}
        self._configuration = state_digest({"python": str(python), "env": env})
        identity = rocm_identity(rocm) if rocm is not None else ""
        made_with: dict[str, object] = {"rocm": identity, "tools": tools(plan, os.environ)}
        if PART in plan.env:
            # The launcher leaves targets out of commands that ninja takes for the same.
            made_with["part"] = plan.env[PART]
        if read:
            made_with["variables"] = read
        self._toolchain = state_digest(made_with)

    @property
    def of_another_toolchain(self) -> bool:
        """Whether its objects are known to come from other compilers, variables of theirs or another ROCm.

        No ninja sees that.
        """
        return self._noted(_COMPILED_WITH) not in (None, self._toolchain)

    def unwanted(self) -> Iterator[str]:
        """Paths below the project's directory that have to go before the build."""
        if not self.plan.editable:
            yield "dist"
            yield from self._collected()
        if self.of_another_toolchain:
            yield "build"
        elif self._noted(_CONFIGURED_FOR) != self._configuration:
            # CMake remembers variables and the interpreter of its first run; ninja keeps what stays the same.
            yield from self.plan.per_python or self._found("CMakeCache.txt", "*/CMakeCache.txt")

    def _collected(self) -> Iterator[str]:
        """A module or header that the sources no longer have would still be packed from there."""
        yield from self._found(*_COLLECTED)
        if not (self.build / "CMakeCache.txt").exists() and not self.plan.per_python:
            # With CMake it holds libraries.
            yield from self._found("lib")

    def _found(self, *patterns: str) -> Iterator[str]:
        for pattern in patterns:
            yield from (
                f"build/{path.relative_to(self.build).as_posix()}" for path in self.build.glob(pattern)
            )

    def _noted(self, name: str) -> str | None:
        try:
            return (self.build / name).read_text(encoding="utf-8")
        except OSError:
            return None

    def begin(self) -> None:
        """Before the command: how far one comes that is killed, nobody knows."""
        (self.build / _CONFIGURED_FOR).unlink(missing_ok=True)
        self._note(_COMPILED_WITH, self._toolchain)

    def end(self) -> None:
        """After the command, also one that failed: what is compiled is of use to the next."""
        self._note(_COMPILED_WITH, self._toolchain)
        self._note(_CONFIGURED_FOR, self._configuration)

    def _note(self, name: str, text: str) -> None:
        if self.build.is_dir():
            write_text(self.build / name, text)
