"""Unusual wrappers, entries and payloads: split under the right number, or kept whole for a good reason."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from needs import needs, needs_lld
from oracle import splitting
from oracle.fat_library import Wrapper, build_library, bundle, ccob, code_object
from oracle.kpack_reader import read_kpack
from oracle.splitting import Split
from rocwright.device_code.split import Kept

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

HOST = "host-x86_64-unknown-linux-gnu-"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"


def code(number: int) -> bytes:
    return code_object(0x4C, struct.pack("<I", number) * (800 + number))


def plain(number: int) -> bytes:
    return bundle([("gfx942", code(number)), ("gfx1100", code(number + 50))])


def build(directory: Path, bundles: Sequence[bytes] | None = None, **more: Any) -> Path:
    """A library whose code is the last in its segment, which leaves room for everything."""
    chosen = [plain(i) for i in range(3)] if bundles is None else bundles
    return build_library(directory / "in", bundles=chosen, **{"with_tail": False, **more})


def entries(done: Split | Kept | None) -> dict[tuple[int, str], bytes]:
    """(wrapper index, target) → code, of a split that every reader finds right."""
    assert isinstance(done, Split), done
    assert splitting.findings(done) == []
    found = {}
    for target, path in done.archives.items():
        found |= {(index, target): blob for (_, index, _), blob in read_kpack(path).entries.items()}
    return found


def kept(directory: Path, bundles: Sequence[bytes] | None = None, **more: Any) -> str:
    """Why a library is kept; nothing was written for it."""
    done = splitting.split(build(directory, bundles, **more), directory / "out")
    assert isinstance(done, Kept) and not done.already, done
    assert not (directory / "out").exists()
    return done.reason


# -- wrappers ----------------------------------------------------------------------------------------------


def test_a_unit_without_a_target_moves_no_other_number(tmp_path: Path) -> None:
    bundles = [
        bundle([("gfx942", code(1))]),
        bundle([("gfx1100", code(2))]),
        bundle([("gfx942", code(3)), ("gfx1100", code(4))]),
    ]
    done = splitting.split(build(tmp_path, bundles), tmp_path / "out")
    assert entries(done) == {
        (0, "gfx942"): code(1),
        (1, "gfx1100"): code(2),
        (2, "gfx942"): code(3),
        (2, "gfx1100"): code(4),
    }
    assert splitting.loads(done, "gfx1100", tmp_path) == []


def test_wrappers_in_another_order_than_bundles(tmp_path: Path) -> None:
    done = splitting.split(build(tmp_path, wrappers=[2, 0, 1]), tmp_path / "out")
    found = entries(done)
    assert [found[index, "gfx942"] for index in range(3)] == [code(2), code(0), code(1)]
    assert splitting.loads(done, "gfx942", tmp_path) == []


def test_two_wrappers_share_one_frame_of_their_bundle(tmp_path: Path) -> None:
    done = splitting.split(build(tmp_path, [plain(0), plain(1)], wrappers=[0, 1, 1, 0]), tmp_path / "out")
    found = entries(done)
    assert [found[index, "gfx942"] for index in range(4)] == [code(0), code(1), code(1), code(0)]
    assert isinstance(done, Split)
    archive = read_kpack(done.archives["gfx942"])
    assert len(archive.frame_sizes) == 2
    assert {index: ordinal for (_, index, _), ordinal in archive.ordinals.items()} == {0: 0, 1: 1, 2: 1, 3: 0}
    assert done.stored.objects["gfx942"] == 4


@pytest.mark.parametrize("form", ["so", "so relr", "pie", "exec"])
@pytest.mark.parametrize(
    ("wrappers", "reason"),
    [
        ([0, Wrapper(1, offset=4096), 1, 2], "wrapper 1 does not point to the start of a bundle"),
        ([0, Wrapper(1, offset=-1), 1, 2], "wrapper 1 does not point to the start of a bundle"),
        ([0, 2], "no wrapper leads to 1 of its 3 bundles"),
        ([], "no wrapper leads to 3 of its 3 bundles"),
        ([0, 1, Wrapper(2, version=2)], "wrapper 2 is of an unknown kind"),
        ([0, 1, Wrapper(2, reserved=7)], "wrapper 2 is of an unknown kind"),
        ([0, 1, Wrapper(2, reserved=7 << 32)], "wrapper 2 is of an unknown kind"),
        ([0, 1, Wrapper(2, magic=0x4B504948)], "wrapper 2 is of an unknown kind"),
        ([0, 1, Wrapper(2, magic=0)], "wrapper 2 is of an unknown kind"),
    ],
    ids=["middle", "before", "alone", "none", "version", "reserved", "reserved high", "half split", "magic"],
)
def test_wrappers_that_keep_a_library(
    tmp_path: Path, form: str, wrappers: list[int | Wrapper], reason: str
) -> None:
    kind, _, relr = form.partition(" ")
    assert kept(tmp_path, wrappers=wrappers, kind=kind, relr=bool(relr)) == reason


def test_a_wrapper_without_pointer(tmp_path: Path) -> None:
    wrappers = [0, 1, 2, Wrapper(pointer="0")]
    unrelocated = "its relocations do not match the pointers of the wrappers"
    assert kept(tmp_path / "so", wrappers=wrappers) == unrelocated
    assert kept(tmp_path / "relr", wrappers=wrappers, relr=True) == unrelocated
    fixed = kept(tmp_path / "exec", wrappers=wrappers, kind="exec")
    assert fixed == "wrapper 3 does not point to the start of a bundle"


def test_a_wrapper_filled_through_a_symbol(tmp_path: Path) -> None:
    found = kept(tmp_path, wrappers=[0, 1, 2, Wrapper(pointer="fat_count")])
    assert found == "a wrapper is filled by a relocation of type 1"


def test_units_of_relocatable_device_code_that_export_their_bundle(tmp_path: Path) -> None:
    """As Debian's RCCL 7.2: every unit's wrapper leads to the one bundle through a symbol of its own."""
    names = ["__hip_fatbin_5b9d70e7c0c476be", "__hip_fatbin_b2f67cc834fcb4c"]
    symbols = "".join(f".globl {name}\n.set {name}, __hip_fatbin_0\n" for name in names)
    wrappers = [Wrapper(pointer=name) for name in names]
    fat = build(tmp_path, [bundle([("gfx942", code(1))])], wrappers=wrappers, extra_asm=symbols)
    done = splitting.split(fat, tmp_path / "out")
    assert isinstance(done, Split)
    assert entries(done) == {(0, "gfx942"): code(1), (1, "gfx942"): code(1)}
    # A name that is no hash of a unit may be anybody's.
    other = "__hip_fatbin_not-of-any-unit."
    symbols = f'.globl "{other}"\n.set "{other}", __hip_fatbin_0\n'
    wrappers = [Wrapper(pointer=f'"{other}"')]
    found = kept(tmp_path / "other", [bundle([GOOD])], wrappers=wrappers, extra_asm=symbols)
    assert found == "a wrapper is filled by a relocation of type 1"


POINTER = '.section {section},"aw"\n.balign 8\n.quad __hip_fatbin_1 + {offset}\n'


@pytest.mark.parametrize("relr", [False, True], ids=["rela", "relr"])
@pytest.mark.parametrize("section", [".data", ".data.rel.ro"])
@pytest.mark.parametrize("offset", [0, 100])
def test_a_foreign_pointer_into_the_code(tmp_path: Path, relr: bool, section: str, offset: int) -> None:
    more = POINTER.format(section=section, offset=offset)
    found = kept(tmp_path, relr=relr, extra_asm=more)
    assert found == "1 pointers other than the wrappers' lead into its device code"


def test_a_foreign_pointer_in_a_program_at_a_fixed_address(tmp_path: Path) -> None:
    done = splitting.split(
        build(tmp_path, kind="exec", extra_asm=POINTER.format(section=".data", offset=100)), tmp_path / "out"
    )
    assert isinstance(done, Kept)


def test_an_exported_symbol_inside_the_code(tmp_path: Path) -> None:
    more = ".globl device_start\n.set device_start, __hip_fatbin_1 + 8\n"
    assert kept(tmp_path, kind="pie", extra_asm=more) == "it exports symbols inside its device code"


# -- entries -----------------------------------------------------------------------------------------------

GOOD = ("gfx942", code(1))


@pytest.mark.parametrize(
    ("bundles", "reason"),
    [
        ([bundle([GOOD, ("gfx942", code(2))])], "a bundle has two entries for gfx942"),
        (
            [bundle([GOOD, ("hip-amdgcn-amd-amdhsa--gfx942", code(2))])],
            "a bundle has two entries for gfx942",
        ),
        ([bundle([GOOD, ("gfx906", b"")])], "its code object for gfx906 has 0 bytes"),
        (
            [bundle([GOOD, ("hip-spirv64-amd-amdhsa--amdgcnspirv", b"\x03\x02\x23\x07" * 20)])],
            "it holds SPIR-V, which AMD's runtime does not look for in archives",
        ),
        (
            [bundle([GOOD, ("hipv4-amdgcn-amd-amdhsa--../../etc/passwd", code(2))])],
            "the entry 'hipv4-amdgcn-amd-amdhsa--../../etc/passwd' names no known kind of target",
        ),
        (
            [bundle([GOOD, ("gfx90a:nonsense+", code(2))])],
            "the entry 'hipv4-amdgcn-amd-amdhsa--gfx90a:nonsense+' names no known kind of target",
        ),
        (
            [bundle([GOOD, ("gfx90a:xnack+:xnack-", code(2))])],
            "the entry 'hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+:xnack-' names no known kind of target",
        ),
    ],
    ids=["twice", "twice by two kinds", "empty", "spirv", "path", "feature", "feature twice"],
)
def test_entries_that_keep_a_library(tmp_path: Path, bundles: list[bytes], reason: str) -> None:
    assert kept(tmp_path, bundles) == reason


def test_host_code_in_a_bundle_keeps_it(tmp_path: Path) -> None:
    found = kept(tmp_path, [bundle([(HOST, b"x" * 64), GOOD], host=None)])
    assert found.startswith("the bundle at 0x") and found.endswith("holds host code")


def test_a_blank_in_a_target_keeps_it(tmp_path: Path) -> None:
    """No archive may get a name that the runtime never asks for."""
    found = kept(tmp_path, [bundle([("gfx942 ", code(1))])])
    assert found == "gfx942  is spelled in a way that no runtime looks for"


def test_features_in_an_order_that_the_runtime_never_asks_for(tmp_path: Path) -> None:
    found = kept(tmp_path, [bundle([("gfx90a:xnack-:sramecc+", code(1))])])
    assert found == "gfx90a:xnack-:sramecc+ is spelled in a way that no runtime looks for"


@pytest.mark.parametrize("host", [HOST, "host-x86_64-unknown-linux", None])
@pytest.mark.parametrize(
    "entry",
    ["hip-amdgcn-amd-amdhsa--gfx942", "hip-amdgcn-amd-amdhsa-gfx942", "hipv4-amdgcn-amd-amdhsa--gfx942"],
)
def test_old_and_new_entry_ids(tmp_path: Path, entry: str, host: str | None) -> None:
    done = splitting.split(build(tmp_path, [bundle([(entry, code(1))], host=host)]), tmp_path / "out")
    assert isinstance(done, Split)
    archive = read_kpack(done.archives["gfx942"])
    assert archive.entries == {(done.kernel, 0, "gfx942"): code(1)}
    assert archive.metadata == {(done.kernel, 0, "gfx942"): {"target": entry}}


def test_every_kind_of_target_has_an_archive_of_its_own(tmp_path: Path) -> None:
    targets = ["gfx9-4-generic", "gfx11-generic", "gfx1250", "gfx1250-strict", "gfx90a", "gfx90a:xnack+"]
    targets += ["gfx90a:sramecc+:xnack-", "gfx90a:sramecc-"]
    pairs = [(target, code(number)) for number, target in enumerate(targets)]
    done = splitting.split(build(tmp_path, [bundle(pairs)]), tmp_path / "out")
    assert isinstance(done, Split) and sorted(done.archives) == sorted(targets)
    assert entries(done) == {(0, target): blob for target, blob in pairs}
    for isa in ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc-:xnack+", "gfx1250-strict", "gfx1250"):
        assert splitting.loads(done, isa, tmp_path) == []


@pytest.mark.parametrize("fall_through", [False, True], ids=["before August 2026", "since"])
def test_units_that_are_not_equally_specific(tmp_path: Path, fall_through: bool) -> None:
    """Older runtimes stop at the first archive that exists, so it must hold the general code as well."""
    bundles = [
        bundle([("gfx90a:xnack-", code(1))]),
        bundle([("gfx90a", code(2)), ("gfx90a:sramecc+", code(3))]),
    ]
    done = splitting.split(build(tmp_path, bundles), tmp_path / "out")
    assert isinstance(done, Split)
    assert entries(done) == {
        (0, "gfx90a:xnack-"): code(1),
        (1, "gfx90a"): code(2),
        (1, "gfx90a:sramecc+"): code(3),
        (1, "gfx90a:xnack-"): code(2),
    }
    assert done.stored.repeated == 1
    for isa in ("gfx90a:xnack-", "gfx90a:sramecc-:xnack-", "gfx90a:sramecc+:xnack+", "gfx90a:xnack+"):
        assert splitting.loads(done, isa, tmp_path, fall_through=fall_through) == []


def test_bundles_with_nothing_for_a_device(tmp_path: Path) -> None:
    done = splitting.split(build(tmp_path, [bundle([]).ljust(4096, b"\0"), plain(1)]), tmp_path / "out")
    assert entries(done) == {(1, "gfx942"): code(1), (1, "gfx1100"): code(51)}


# -- payloads ----------------------------------------------------------------------------------------------


def test_any_bytes_may_be_inside_a_code_object(tmp_path: Path) -> None:
    page = bytes(4096 - 64)
    payloads = [
        code(0) + page + BUNDLE + struct.pack("<Q", 2) + bytes(5000),
        b"CCOB" + struct.pack("<HH", 2, 1) + b"\xff" * 2000,
        bytes(4096) + ccob(plain(7)),
        bytes(4096) + plain(8),
        b"\x7fELF" * 3000,
        b"KPAK" + bytes(100),
        bytes(9000),
    ]
    for form in ("raw", "packed"):
        pairs = [(f"gfx9{number:02}", data) for number, data in enumerate(payloads)]
        raw = [bundle(pairs), bundle(pairs[::-1])]
        library = build(tmp_path / form, raw if form == "raw" else [ccob(item) for item in raw])
        found = entries(splitting.split(library, tmp_path / form / "out"))
        assert found == {(index, name): data for index in (0, 1) for name, data in pairs}


@needs_lld
def test_the_same_code_everywhere(tmp_path: Path) -> None:
    """Equal code objects stay equal, whether or not their frames are shared."""
    library = build(tmp_path, [bundle([("gfx942", code(1))])] * 4, linker="lld", with_tail=True)
    found = entries(splitting.split(library, tmp_path / "out"))
    assert found == {(index, "gfx942"): code(1) for index in range(4)}


# -- what is no fat library --------------------------------------------------------------------------------


def test_a_section_too_short_for_the_marker(tmp_path: Path) -> None:
    tiny = bundle([("gfx942", b"x")], host=None, align=1)
    name = f"lib{'x' * 100}.so"
    reason = f"its device code of {len(tiny)} bytes leaves no room for a marker of 220"
    assert kept(tmp_path, [tiny], name=name) == reason


@pytest.mark.parametrize("data", [BUNDLE + bytes(8), bundle([]), bundle([]) + bytes(9000)])
def test_bundles_without_any_code(tmp_path: Path, data: bytes) -> None:
    assert kept(tmp_path, [data]) == "its bundles hold no code for any target"


def test_no_device_code(tmp_path: Path) -> None:
    assert splitting.split(build(tmp_path, [], wrappers=[]), tmp_path / "out") is None
    for name, data in {"empty": b"", "text": b"CCOB is text here", "short": b"\x7fEL"}.items():
        (tmp_path / name).write_bytes(data)
        assert splitting.split(tmp_path / name, tmp_path / "out") is None
    assert not (tmp_path / "out").exists()
