"""A set whose writer names no build: what a library registers is compared with what its archives define."""

from __future__ import annotations

import zipfile
from pathlib import Path

import msgspec
import pytest
from gather_wheels import write
from set_facts import found, wheel

from needs import needs
from oracle.fat_library import build_library, bundle
from rocwright.check.facts import ElfFacts, KpackFacts
from rocwright.check.gather import gather
from rocwright.device_code.kpack import Marker
from rocwright.device_code.verify.verify import verify
from unit.check.kpack_cases import Case, code_with, split_case

HOST = "_rocm/lib/libfat.so"
ARCHIVE = "_rocm/.kpack/fat_gfx90a.kpack"
KERNEL = "lib/libfat.so"


def registers(*units: tuple[str, ...]) -> str:
    """Constructors as the compiler makes them, one for each unit with these kernels."""
    text = ".weak __hipRegisterFatBinary, __hipRegisterFunction\n"
    for number, names in enumerate(units):
        text += f".text\nregisters{number}: leaq fat_wrappers+{24 * number}(%rip), %rdi\n"
        text += "call __hipRegisterFatBinary@PLT\n"
        for name in names:
            text += f"leaq name_{name}(%rip), %rdx\ncall __hipRegisterFunction@PLT\n"
        text += "ret\n.section .rodata\n"
        text += "".join(f'name_{name}: .asciz "{name}"\n' for name in names)
        text += f'.section .init_array,"aw",@init_array\n.balign 8\n.quad registers{number}\n'
    return text


def split(folder: Path, *units: tuple[str, ...], defined: tuple[tuple[str, ...], ...] = ()) -> Case:
    """A library whose units register these kernels, and have code that defines them, or others."""
    folder.mkdir(exist_ok=True)
    bundles = [
        bundle([("gfx90a", code_with(folder / f"code{number}", *names))])
        for number, names in enumerate(defined or units)
    ]
    fat = build_library(folder, bundles=bundles, with_tail=False, extra_asm=registers(*units))
    return split_case(folder / "root", fat)


def told(elf: ElfFacts, *archives: KpackFacts) -> list[tuple[str, str, str]]:
    """What is found in a set of both."""
    tag = "py3-none-linux_x86_64"
    host = wheel("rocm-sdk-libraries", "7", tag, elf=[elf], members=[elf.member])
    device = wheel("rocm-sdk-device-gfx942", "7", tag, requires=[f"{host.project}==7"], archives=archives)
    return found(host, device, closed=False)


def facts(host: Path, archive: Path, folder: Path, *, stored: bool) -> tuple[ElfFacts, KpackFacts]:
    """What is gathered of both as another tool would leave them, without identities."""
    data = host.read_bytes(), archive.read_bytes()
    assert [each.count(b"host_build") for each in data] == [1, 1]
    # A key that nobody knows, of the same length.
    one, other = (each.replace(b"host_build", b"xxxx_build") for each in data)
    path = write(folder, {HOST: one, ARCHIVE: other}, stored=[HOST, ARCHIVE] if stored else [])
    with zipfile.ZipFile(path) as wheel:
        assert wheel.read(HOST) == one
    gathered = gather(path)
    return gathered.elf[0], gathered.archives[0]


@needs("gcc", "llvm-mc", "ld.lld")
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "deflated"])
def test_what_a_library_launches_and_an_archive_defines(stored: bool, tmp_path: Path) -> None:
    case = split(tmp_path / "one", ("_Z5firstv", "_Z6secondv"), ("_Z5thirdv",))
    elf, archive = facts(case.host, case.archive("gfx90a"), tmp_path, stored=stored)
    wanted = {0: {"_Z5firstv", "_Z6secondv"}, 1: {"_Z5thirdv"}}
    assert (elf.wrappers, elf.launches) == (2, wanted)
    assert archive.wrappers == {KERNEL: 2}
    assert archive.defined == {(KERNEL, number): names for number, names in wanted.items()}
    assert told(elf, archive) == []


@needs("gcc", "llvm-mc", "ld.lld")
def test_a_host_of_another_build_launches_what_nothing_defines(tmp_path: Path) -> None:
    one = split(tmp_path / "one", ("_Z5firstv",), ("_Z5thirdv",))
    other = split(tmp_path / "other", ("_Z5firstv",), ("_Z6fourthv",))
    elf, archive = facts(one.host, other.archive("gfx90a"), tmp_path, stored=False)
    ((rule, file, cause),) = told(elf, archive)
    assert (rule, file.partition("-")[0]) == ("set-launch", "rocm_sdk_device_gfx942")
    assert cause.endswith("for wrapper 1 it defines _Z6fourthv, and _Z5thirdv is launched")


@needs("gcc", "llvm-mc", "ld.lld")
def test_a_host_whose_build_is_named_is_not_read_further(tmp_path: Path) -> None:
    case = split(tmp_path / "one", ("_Z5firstv",))
    path = write(tmp_path, {HOST: case.host.read_bytes(), ARCHIVE: case.archive("gfx90a").read_bytes()})
    gathered = gather(path)
    assert gathered.elf[0].launches is None
    assert gathered.archives[0].defined == {}


@needs("gcc", "llvm-mc", "ld.lld")
@pytest.mark.parametrize(
    ("defined", "rule", "what"),
    [
        (
            "_Z6fourthv",
            "kpack-stranger",
            "for wrapper 1 of root/lib/libfat.so it defines _Z6fourthv, and _Z5thirdv",
        ),
        ("_Z5thirdv", "", ""),
    ],
)
def test_archives_that_name_no_build_beside_a_library(
    defined: str, rule: str, what: str, tmp_path: Path
) -> None:
    one = split(tmp_path / "one", ("_Z5firstv",), ("_Z5thirdv",))
    other = split(tmp_path / "other", ("_Z5firstv",), (defined,))
    data = other.archive("gfx90a").read_bytes()
    one.archive("gfx90a").write_bytes(data.replace(b"host_build", b"xxxx_build"))
    report = verify([one.root])
    assert [finding.rule for finding in report.findings] == [rule] * bool(rule)
    assert [finding.cause for finding in report.findings] == [f"{what} is launched"] * bool(rule)


FIRST, SECOND = frozenset({"_Z5firstv"}), frozenset({"_Z6secondv"})
ELF = ElfFacts(
    HOST,
    marker=Marker(("../.kpack/fat_@GFXARCH@.kpack",), KERNEL),
    wrappers=2,
    launches={0: FIRST, 1: SECOND},
)
HELD = KpackFacts(
    "_rocm/.kpack/fat_gfx942.kpack",
    frozenset({KERNEL}),
    frozenset({"gfx942"}),
    wrappers={KERNEL: 2},
    defined={(KERNEL, 0): FIRST, (KERNEL, 1): SECOND},
)


@pytest.mark.parametrize(
    ("elf", "archive", "what"),
    [
        pytest.param({}, {}, "", id="one build"),
        pytest.param({"wrappers": 1}, {}, "it has code for wrapper 1, and there are only 1", id="more units"),
        pytest.param(
            {"launches": {0: SECOND, 1: FIRST}},
            {},
            "for wrapper 0 it defines _Z5firstv, and _Z6secondv is launched",
            id="units in another order",
        ),
        # Some targets have no instructions for some kernels, and then for some only.
        pytest.param({"launches": {0: FIRST | SECOND}}, {}, "", id="a kernel that is left out"),
        pytest.param({}, {"defined": {(KERNEL, 0): FIRST}}, "", id="code that could not be read"),
        pytest.param({"launches": {0: FIRST, -1: FIRST}}, {}, "", id="a wrapper that cannot be told"),
        pytest.param({"launches": None}, {}, "", id="registrations that cannot be read"),
        pytest.param({"wrappers": 0, "launches": {}}, {}, "", id="wrappers that cannot be found"),
        pytest.param({}, {"defined": {}, "builds": {KERNEL: ""}}, "", id="a build that is named"),
    ],
)
def test_only_code_that_no_kernel_fits_is_anothers(
    elf: dict[str, object], archive: dict[str, object], what: str
) -> None:
    findings = told(msgspec.structs.replace(ELF, **elf), msgspec.structs.replace(HELD, **archive))
    assert [rule for rule, _, _ in findings] == ["set-launch"] * bool(what)
    assert all(cause.endswith(what) for _, _, cause in findings)


def test_a_target_that_fits_tells_that_another_may_leave_kernels_out() -> None:
    odd = msgspec.structs.replace(
        HELD,
        member="_rocm/.kpack/fat_gfx906.kpack",
        targets=frozenset({"gfx906"}),
        defined={(KERNEL, 0): SECOND, (KERNEL, 1): FIRST},
    )
    assert told(ELF, HELD, odd) == []
