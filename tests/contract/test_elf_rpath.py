"""An RPATH planned by us, on files made by real linkers: loaded, run, read by readelf, put through strip."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from needs import need, needs
from rocwright.binary.elf import read_elf
from rocwright.binary.elf_edits import plan_rpath
from rocwright.binary.patch import apply_patch

pytestmark = needs("gcc", "readelf", "strip", "objcopy")

DEPENDENCY = "int answer_of_dependency(void) { return 41; }\n"
# Data, zero-initialised data, thread-local data, relocations and a constructor: what a move could break.
USER = """
#include <string.h>
extern int answer_of_dependency(void);
static int zeroed[5000];
static __thread int per_thread = 7;
static const char *words[] = {"a", "suffix", "of a suffix"};
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }
int answer(void) {
    for (int i = 0; i < 5000; i++) if (zeroed[i]) return -1;
    zeroed[17] = 1;
    if (per_thread != 7 || constructed != 1 || strcmp(words[1], "suffix")) return -2;
    return answer_of_dependency() + 1;
}
"""
MAIN = """
#include <stdio.h>
#include <elf.h>
#include <sys/auxv.h>
extern int answer(void);
int main(void) {
    Elf64_Phdr *header = (Elf64_Phdr *)getauxval(AT_PHDR);
    int interpreters = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) interpreters += header[i].p_type == PT_INTERP;
    printf("%d %d", answer(), interpreters);
    return 0;
}
"""
HUGE = "char huge[70 << 20];\n"  # more zeros than a plan may turn into bytes of the file
WANTED = ("$ORIGIN/../dep", "$ORIGIN/../some/other/directory")


@dataclass(frozen=True)
class Case:
    """A fixture: how it is linked, and what its plan must do."""

    id: str
    flags: tuple[str, ...] = ()
    program: bool = False
    linker: str = "bfd"
    more_source: str = ""
    without_property: bool = False
    moves_dynamic: bool = False
    moves_headers: bool = False


NO_SPARE = "-Wl,--spare-dynamic-tags=1"  # the terminator alone
CASES = (
    Case("gnu-library"),
    Case("gnu-library-debug", ("-g",)),
    Case("gnu-library-no-property", without_property=True),
    Case("gnu-library-no-property-debug", ("-g",), without_property=True),
    Case("gnu-library-runpath", ("-Wl,--enable-new-dtags,-rpath,$ORIGIN/old:/opt/rocm/lib", NO_SPARE)),
    Case("gnu-library-rpath", ("-Wl,--disable-new-dtags,-rpath,/opt/rocm/lib", NO_SPARE)),
    Case("gnu-library-no-spare", (NO_SPARE,), moves_dynamic=True),
    Case("gnu-library-no-spare-no-property", (NO_SPARE,), without_property=True, moves_dynamic=True),
    Case("gnu-library-full-relro", ("-Wl,-z,relro,-z,now", NO_SPARE), moves_dynamic=True),
    Case("gnu-library-large-pages", ("-Wl,-z,max-page-size=0x200000",)),
    Case("gnu-library-noseparate-code", ("-Wl,-z,noseparate-code",)),
    Case("gnu-library-sysv-hash", ("-Wl,--hash-style=sysv",)),
    Case("gnu-program", program=True),
    Case("gnu-program-no-property", program=True, without_property=True),
    Case("gnu-program-fixed-address", ("-no-pie",), program=True),
    Case("gnu-program-fixed-address-no-property", ("-no-pie",), program=True, without_property=True),
    Case("gnu-program-no-spare", (NO_SPARE,), program=True, moves_dynamic=True),
    Case(
        "gnu-library-huge-bss", more_source=HUGE, without_property=True, moves_headers=True,
    ),
    Case(
        "gnu-program-huge-bss", program=True, more_source=HUGE, without_property=True, moves_headers=True,
    ),
    Case(
        "gnu-program-fixed-address-huge-bss", ("-no-pie",), program=True, more_source=HUGE,
        without_property=True, moves_headers=True,
    ),
    Case(
        "gnu-program-huge-bss-no-spare", (NO_SPARE,), program=True, more_source=HUGE,
        without_property=True, moves_headers=True, moves_dynamic=True,
    ),
    Case("lld-library", linker="lld", moves_dynamic=True),
    Case("lld-library-runpath", ("-Wl,-rpath,$ORIGIN/old",), linker="lld"),
    Case("lld-program", program=True, linker="lld", moves_dynamic=True),
    Case("lld-program-no-property", program=True, linker="lld", without_property=True, moves_dynamic=True),
    Case("lld-program-fixed-address", ("-no-pie",), program=True, linker="lld", moves_dynamic=True),
)  # fmt: skip


def call(*command: str | Path) -> str:
    """Run a tool; everything it says on standard error fails the test."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, f"{command}: {done.stderr}"
    return done.stdout


def execute(path: Path, program: bool) -> str:
    """What the fixture answers, with the loader left alone."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    command = (
        [str(path)]
        if program
        else [sys.executable, "-c", f"import ctypes; print(ctypes.CDLL({str(path)!r}).answer(), 1, end='')"]
    )
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done.stdout if done.returncode == 0 else f"failed ({done.returncode}): {done.stderr}"


def hide_property(path: Path) -> None:
    """Make PT_GNU_PROPERTY one more PT_NOTE: most of Debian's ROCm libraries have no such header to spare."""
    data = bytearray(path.read_bytes())
    table, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(table, table + 56 * count, 56):
        if struct.unpack_from("<I", data, at)[0] == 0x6474E553:
            struct.pack_into("<I", data, at, 4)
    path.write_bytes(data)


def sections(path: Path) -> dict[str, tuple[str, int, bytes]]:
    """Loaded sections as readelf lists them: name → (type, address, bytes); zeros for NOBITS."""
    data = path.read_bytes()
    found = {}
    for line in call("readelf", "-SW", path).splitlines():
        row = re.match(r"\s*\[\s*\d+\]\s+(\.\S+)\s+(\S+)\s+(\w+) (\w+) (\w+) \w\w (.*)", line)
        if row and "A" in row[6].split()[0]:
            name, kind, address, offset, size = row[1], row[2], *(int(row[i], 16) for i in (3, 4, 5))
            found[name] = (kind, address, bytes(size) if kind == "NOBITS" else data[offset : offset + size])
    return found


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.id)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Case, Path, Path]:
    """The case, the file as linked and the file with its RPATH, beside a directory with its dependency."""
    case: Case = request.param
    if case.linker == "lld":
        need("ld.lld")
    root = tmp_path_factory.mktemp(case.id)
    (root / "dep").mkdir()
    (root / "lib").mkdir()
    (root / "dep.c").write_text(DEPENDENCY)
    (root / "user.c").write_text(USER + case.more_source + (MAIN if case.program else ""))
    call("gcc", "-shared", "-fPIC", "-o", root / "dep/libdependency.so", root / "dep.c")
    kind = () if case.program else ("-shared", "-fPIC", "-Wl,-soname,libuser.so")
    plain, patched = root / "lib/plain", root / ("lib/program" if case.program else "lib/libuser.so")
    call(
        "gcc", "-O1", *kind, f"-fuse-ld={case.linker}", *case.flags, "-o", plain, root / "user.c",
        f"-L{root / 'dep'}", "-ldependency",
    )  # fmt: skip
    if case.without_property:
        hide_property(plain)
    patch = plan_rpath(read_elf(plain), WANTED)
    assert patch is not None
    apply_patch(plain, patch, patched)
    return case, plain, patched


def test_readelf_shows_exactly_this_rpath_and_no_warning(built: tuple[Case, Path, Path]) -> None:
    _, _, patched = built
    call("readelf", "-aW", patched)
    shown = [line for line in call("readelf", "-dW", patched).splitlines() if "PATH" in line]
    assert len(shown) == 1
    assert shown[0].endswith(f"(RPATH)              Library rpath: [{':'.join(WANTED)}]")


def test_the_dependency_is_found_through_it(built: tuple[Case, Path, Path]) -> None:
    case, plain, patched = built
    assert "libdependency.so" in execute(plain, case.program)
    assert execute(patched, case.program) == "42 1"


def test_a_second_plan_has_nothing_to_do(built: tuple[Case, Path, Path]) -> None:
    assert plan_rpath(read_elf(built[2]), WANTED) is None


def test_another_rpath_can_follow(built: tuple[Case, Path, Path], tmp_path: Path) -> None:
    case, _, patched = built
    again = patched.with_name("again")
    apply_patch(patched, plan_rpath(read_elf(patched), ["$ORIGIN/../dep"]), again)
    assert execute(again, case.program) == "42 1"
    call("readelf", "-aW", again)
    none = patched.with_name("none")
    apply_patch(patched, plan_rpath(read_elf(patched), []), none)
    assert "PATH" not in call("readelf", "-dW", none)


def test_everything_else_stays_where_and_what_it_was(built: tuple[Case, Path, Path]) -> None:
    case, plain, patched = built
    before, after = sections(plain), sections(patched)
    for name, (_, address, data) in before.items():
        if name not in (".dynstr", ".dynamic"):
            assert after[name][1:] == (address, data), name
    assert (after[".dynamic"][1] != before[".dynamic"][1]) == case.moves_dynamic
    assert after[".dynstr"][2].startswith(before[".dynstr"][2])
    assert patched.stat().st_mode == plain.stat().st_mode
    symbols = ("readelf", "--dyn-syms", "-rVW")
    shown = [re.sub(r"Link: \d+", "Link", call(*symbols, path)) for path in (plain, patched)]
    assert shown[0] == shown[1]


def test_segments_are_sorted_and_the_dynamic_table_is_writable(built: tuple[Case, Path, Path]) -> None:
    case, plain, patched = built

    def headers(path: Path) -> list[list[str]]:
        return [
            line.split()
            for line in call("readelf", "-lW", path).splitlines()
            if re.match(r"\s+[A-Z_]+\s+0x", line)
        ]

    loads = [row for row in headers(patched) if row[0] == "LOAD"]
    addresses = [int(row[2], 16) for row in loads]
    assert addresses == sorted(addresses)
    for row in loads:
        assert (int(row[1], 16) - int(row[2], 16)) % int(row[-1], 16) == 0
    (dynamic,) = (int(row[2], 16) for row in headers(patched) if row[0] == "DYNAMIC")
    (holder,) = (row for row in loads if 0 <= dynamic - int(row[2], 16) < int(row[5], 16))
    assert "RW" in holder
    # Nothing in front of the sections grows unless the table had to move as a whole.
    assert (len(headers(patched)) > len(headers(plain))) == case.moves_headers
    for line in call("readelf", "-sW", patched).splitlines():
        if line.endswith(" _DYNAMIC"):
            assert int(line.split()[1], 16) == dynamic


@pytest.mark.parametrize("tool", ["strip", "strip -g", "objcopy", "llvm-strip"])
def test_other_tools_can_edit_it(built: tuple[Case, Path, Path], tool: str) -> None:
    case, _, patched = built
    if case.moves_headers:
        pytest.skip("GNU strip cannot lay out a file whose header table has moved (stated in new_segment)")
    need(tool.split()[0])
    edited = patched.with_name("edited")
    shutil.copy(patched, edited)
    call(*tool.split(), edited)
    assert execute(edited, case.program) == "42 1"
    assert f"[{':'.join(WANTED)}]" in call("readelf", "-dW", edited)


def test_a_program_can_be_linked_against_it(built: tuple[Case, Path, Path], tmp_path: Path) -> None:
    case, _, patched = built
    if case.program:
        pytest.skip("only for libraries")
    (tmp_path / "main.c").write_text(MAIN)
    program = tmp_path / "main"
    call(
        "gcc",
        "-o",
        program,
        tmp_path / "main.c",
        f"-L{patched.parent}",
        "-luser",
        f"-Wl,-rpath,{patched.parent}",
    )
    assert execute(program, program=True) == "42 1"


def test_a_file_without_section_headers(tmp_path: Path) -> None:
    (tmp_path / "dep").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "dep.c").write_text(DEPENDENCY)
    (tmp_path / "user.c").write_text(USER)
    call("gcc", "-shared", "-fPIC", "-o", tmp_path / "dep/libdependency.so", tmp_path / "dep.c")
    plain, patched = tmp_path / "lib/plain.so", tmp_path / "lib/patched.so"
    call("gcc", "-shared", "-fPIC", "-o", plain, tmp_path / "user.c", f"-L{tmp_path / 'dep'}", "-ldependency")
    data = bytearray(plain.read_bytes())
    struct.pack_into("<Q", data, 40, 0)  # e_shoff
    struct.pack_into("<HH", data, 60, 0, 0)  # e_shnum, e_shstrndx
    plain.write_bytes(data)
    elf = read_elf(plain)
    assert elf.sections == {} and elf.needed[0] == "libdependency.so"
    apply_patch(plain, plan_rpath(elf, WANTED), patched)
    assert execute(patched, program=False) == "42 1"


def test_what_readelf_says_about_a_real_library(built: tuple[Case, Path, Path]) -> None:
    case, plain, _ = built
    elf = read_elf(plain)
    shown = call("readelf", "-dW", plain)
    assert list(elf.needed) == re.findall(r"\(NEEDED\).*\[(.*)\]", shown)
    assert [elf.soname] == (re.findall(r"\(SONAME\).*\[(.*)\]", shown) or [None])
    needs = re.findall(r"Name: (\S+)  Flags", call("readelf", "-VW", plain))
    assert sorted(version for names in elf.versions.values() for version in names) == sorted(needs)
    assert (elf.interp is not None) == case.program
    assert elf.kind == ("exec" if "-no-pie" in case.flags else "dyn")
    files = re.findall(r"File: (\S+)", call("readelf", "-VW", plain))
    assert list(elf.versions) == files
