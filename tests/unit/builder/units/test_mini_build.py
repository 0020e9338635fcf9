"""The miniature's own build functions: what is made again, and what is not, as with ninja."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "mini-pytorch"
# A compiler that copies its source, writes a depfile naming a header, and tells that it ran.
COMPILER = """#!/bin/sh
echo "$@" >> ran
for word; do case $before in -o) out=$word;; -c) source=$word;; -MF) deps=$word;; esac; before=$word; done
cp "$source" "$out" && printf '%s: %s \\\\\\n  a\\\\ header.h\\n' "$out" "$source" > "$deps"
"""


@pytest.fixture(scope="module")
def tools() -> ModuleType:
    path = EXAMPLES / "pytorch" / "torch" / "utils" / "_mini_build.py"
    spec = importlib.util.spec_from_file_location("mini_build_under_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Project:
    """Two sources and a header in the past, and a compiler that counts its runs."""

    def __init__(self, root: Path, tools: ModuleType) -> None:
        self.root, self.tools = root, tools
        self.env = {"CXX": str(root / "cxx"), "MAX_JOBS": "1"}
        (root / "cxx").write_text(COMPILER)
        (root / "cxx").chmod(0o755)
        for name in ("a.cpp", "b.cpp", "a header.h"):
            (root / name).write_text(name)
            os.utime(root / name, (1, 1))
        self.flags = {"a.cpp": (), "b.cpp": ()}

    def compile(self) -> list[str]:
        """Sources that were compiled."""
        before = len(self.ran)
        objects = self.root / "build" / "obj"
        units = [self.tools.Unit(name, objects / f"{name}.o", flags) for name, flags in self.flags.items()]
        self.tools.compile_all(units, self.root, None, self.env)
        words = [shlex.split(line) for line in self.ran[before:]]
        return sorted(line[line.index("-c") + 1] for line in words)

    @property
    def ran(self) -> list[str]:
        log = self.root / "ran"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def project(tmp_path: Path, tools: ModuleType) -> Project:
    made = Project(tmp_path, tools)
    assert made.compile() == ["a.cpp", "b.cpp"]
    assert made.compile() == []
    return made


def test_a_changed_source_is_compiled_again(project: Project) -> None:
    (project.root / "b.cpp").write_text("changed")
    later = (project.root / "build/obj/b.cpp.o").stat().st_mtime + 5
    os.utime(project.root / "b.cpp", (later, later))
    assert project.compile() == ["b.cpp"]
    os.utime(project.root / "b.cpp", (1, 1))
    assert project.compile() == []


def test_a_changed_header_compiles_all_that_includes_it(project: Project) -> None:
    later = (project.root / "build/obj/b.cpp.o").stat().st_mtime + 5
    os.utime(project.root / "a header.h", (later, later))
    assert project.compile() == ["a.cpp", "b.cpp"]


def test_another_command_compiles_again(project: Project) -> None:
    project.flags["a.cpp"] = ("-DTARGETS=2",)
    assert project.compile() == ["a.cpp"]


def test_a_lost_object_or_header_is_noticed(project: Project) -> None:
    (project.root / "build/obj/a.cpp.o").unlink()
    assert project.compile() == ["a.cpp"]
    (project.root / "a header.h").unlink()
    assert project.compile() == ["a.cpp", "b.cpp"]


def test_half_an_object_of_a_killed_compiler_is_not_taken(project: Project) -> None:
    """It has no stamp, because that is written behind the compiler's success."""
    project.flags["a.cpp"] = ("-DX",)
    compiler = project.root / "cxx"
    text = compiler.read_text()
    compiler.write_text('#!/bin/sh\nfor word; do out=$word; done; echo half > "$out"; exit 1\n')
    with pytest.raises(project.tools.BuildError, match="exit status 1"):
        project.compile()
    compiler.write_text(text)
    assert project.compile() == ["a.cpp"]
    assert (project.root / "build/obj/a.cpp.o").read_text() == "a.cpp"


def test_commands_name_no_place_below_the_checkout(project: Project) -> None:
    assert all(str(project.root) not in line for line in project.ran)


def test_launchers_stand_before_the_compiler(project: Project, tools: ModuleType) -> None:
    env = {"CXX": "c++ -m64", "CMAKE_CXX_COMPILER_LAUNCHER": "/my cache/ccache;--verbose"}
    unit = tools.Unit("a.cpp", project.root / "a.o")
    command = tools.compile_command(unit, project.root, None, env)
    assert command[:4] == ["/my cache/ccache", "--verbose", "c++", "-m64"]


def test_a_copy_of_the_same_content_keeps_its_time(tmp_path: Path, tools: ModuleType) -> None:
    (tmp_path / "new.h").write_text("same")
    tools.copy_if_different(tmp_path / "new.h", tmp_path / "to" / "old.h")
    os.utime(tmp_path / "to" / "old.h", (1, 1))
    tools.copy_if_different(tmp_path / "new.h", tmp_path / "to" / "old.h")
    assert (tmp_path / "to" / "old.h").stat().st_mtime == 1
    (tmp_path / "new.h").write_text("other")
    tools.copy_if_different(tmp_path / "new.h", tmp_path / "to" / "old.h")
    assert (tmp_path / "to" / "old.h").read_text() == "other"
