"""What earlier builds left in `build` of a project, and what of it has to go before the next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rocwright.builder.decide.plan import BuildPlan, BuiltWheel
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.isolation import (
    compiler_environment,
    outcome_environment,
    rocm_identity,
    tools,
)
from rocwright.builder.run.tree import state_digest
from rocwright.builder.units.launch import PART
from rocwright.model.project import TORCH
from rocwright.system.files import make_directory, remove_tree, write_text
from rocwright.wheel.read import open_wheel

# In the directory `build`: what it was configured for, and with which compilers its objects were made.
_CONFIGURED_FOR = ".rocwright-configured"
_COMPILED_WITH = ".rocwright-compiled"
# What torch's BuildExtension compiles by, and the files that device sources include.
_OF_TORCH = "temp.*/build.ninja"
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tpp", ".def")
# Where setuptools collects the files of a wheel.
_COLLECTED = ("lib.*", "bdist.*")


def _headers(wheel: BuiltWheel) -> str:
    """Differs where another wheel has other headers: those of one torch for several Pythons are the same."""
    if not wheel.path or not wheel.sha256:
        return wheel.sha256
    there = [member for member in open_wheel(Path(wheel.path)).members if "/include/" in member.name]
    return state_digest({member.name: [member.size, member.crc] for member in there})


class Leftovers:
    """The directory `build` of a project, for one plan."""

    def __init__(
        self, plan: BuildPlan, python: Path, rocm: Rocm | None, given: Sequence[BuiltWheel] = ()
    ) -> None:
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
        if plan.plain_compilers:
            # Programs stand in for these (see `stand_ins`), so ninja sees no change of their words.
            made_with["compilers"] = [env.get("CC", ""), env.get("CXX", "")]
        if read:
            made_with["variables"] = read
        # ninja takes headers of torch for the system's, and sees no change of them.
        under = {wheel.project: _headers(wheel) for wheel in given if plan.local or wheel.project == TORCH}
        if under:
            made_with["given"] = under
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
            yield from self._collected()
        if self.of_another_toolchain:
            yield "build"
            return
        yield from self._outdated()
        if self._noted(_CONFIGURED_FOR) != self._configuration:
            # CMake remembers variables and the interpreter of its first run; ninja keeps what stays the same.
            yield from self.plan.per_python or self._found(
                "CMakeCache.txt", "*/CMakeCache.txt", "temp.*/**/CMakeCache.txt"
            )

    def _outdated(self) -> Iterator[str]:
        """Objects older than a header: with HIP, torch does not let ninja follow what sources include."""
        made = [
            file.parent
            for file in self.build.glob(_OF_TORCH)
            if not (file.parent / "CMakeCache.txt").exists()
        ]
        if not made:
            return
        newest = max(self._times_of_headers(), default=0)
        for path in (path for directory in made for path in directory.rglob("*.o")):
            if path.stat().st_mtime_ns < newest:
                yield f"build/{path.relative_to(self.build).as_posix()}"

    def _times_of_headers(self) -> Iterator[int]:
        for here, folders, names in os.walk(self.build.parent):
            folders[:] = [name for name in folders if name != ".git" and Path(here, name) != self.build]
            yield from (
                Path(here, name).lstat().st_mtime_ns for name in names if name.lower().endswith(_HEADERS)
            )

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
        make_directory(self.build)
        self._note(_COMPILED_WITH, self._toolchain)

    def end(self) -> None:
        """After the command, also one that failed: what is compiled is of use to the next."""
        if not {path.name for path in self.build.glob("*")} - {_COMPILED_WITH}:
            # A build that leaves nothing there.
            remove_tree(self.build)
        self._note(_COMPILED_WITH, self._toolchain)
        self._note(_CONFIGURED_FOR, self._configuration)

    def _note(self, name: str, text: str) -> None:
        if self.build.is_dir():
            write_text(self.build / name, text)
