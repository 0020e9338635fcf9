"""What members are: libraries, device code, archives of it, small ones and such that streamed by."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import zstandard
from gather_wheels import write
from kpack_cases import code, with_plain_archive, write_archive

from oracle.fat_library import build_library, bundle, ccob
from rocwright.binary.view import Mapped
from rocwright.check.facts import CodeFile, ElfFacts, Facts, KpackFacts, WrongCode
from rocwright.check.gather import gather, members, skim
from rocwright.check.gather.look import Found, Look
from rocwright.check.gather.skim import PIECE, InflatedView, Skim
from rocwright.device_code.kpack import ArchiveWriter, Entry, Marker, pack_marker
from rocwright.errors import InvalidInput
from rocwright.wheel.stream import Cursor, PackedMember

TARGETS = ("gfx906", "gfx90a:xnack-", "gfx942", "gfx1100")


def noise(seed: int, size: int) -> bytes:
    """Bytes that hardly compress."""
    return random.Random(seed).randbytes(size)


def gathered(folder: Path, name: str, data: bytes, *, stored: bool = False) -> Facts:
    facts = gather(write(folder, {name: data}, stored=[name] if stored else []))
    assert facts.damaged == facts.record == ()
    # Of its symbols other tests tell.
    return msgspec.structs.replace(
        facts, elf=tuple(msgspec.structs.replace(elf, symbols=None) for elf in facts.elf)
    )


def library_of(folder: Path, bundles: list[bytes], **options: object) -> bytes:
    return build_library(folder, bundles=bundles, **options).read_bytes()


BOTH = pytest.mark.parametrize("stored", [False, True], ids=["deflated", "stored"])


# Reading again what streamed by.


Inflated = Callable[[bytes], InflatedView]


@pytest.fixture
def inflated(tmp_path: Path) -> Iterator[Inflated]:
    """Makes views of data that was skimmed, as of a member."""
    with ExitStack() as stack:
        yield lambda data: skimmed(tmp_path / "packed", data, stack)


def skimmed(path: Path, data: bytes, stack: ExitStack) -> InflatedView:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    path.write_bytes(b"front" + packer.compress(data) + packer.flush())
    handle = stack.enter_context(path.open("rb"))
    packed = PackedMember(handle.fileno(), 5, path.stat().st_size - 5)
    cursor = Cursor(packed, every=1 << 20)
    start, look, at = cursor.copy(), Skim(Path("member"), len(data)), 0
    while piece := cursor.take(PIECE):
        look.see(at, piece)
        at += len(piece)
    cursor.require_end()
    return InflatedView(Path("member"), len(data), look.done(), start, cursor.passed)


@pytest.fixture(scope="module")
def mixed() -> bytes:
    """Ten megabytes, some of them dense, some of zeros, with bundles and code objects on pages."""
    data = bytearray(noise(1, 3 << 20) + bytes(2 << 20) + noise(2, 1 << 20) * 2 + b"text " * 600_000)
    fat = bundle([(target, code(target)) for target in TARGETS])
    for page in (40, 41, 63, 64, 127, 800, 801):
        data[page * 4096 : page * 4096 + len(fat)] = fat
    data[900 * 4096 : 900 * 4096 + 4] = b"CCOB"
    return bytes(data)


def test_any_range_of_a_member_that_streamed_by(inflated: Inflated, mixed: bytes) -> None:
    found = inflated(mixed)
    assert len(found.passed) >= 4
    chance = random.Random(3)
    for _ in range(400):
        offset = chance.choice([chance.randrange(len(mixed)), chance.randrange(0, len(mixed), 4096)])
        offset = max(0, offset - chance.choice([0, 0, 1, 30]))
        length = chance.choice([0, 1, 24, 64, 4096, 65536, 300_000])
        assert found.read_at(offset, length) == mixed[offset : offset + length], (offset, length)
    assert found.read_at(len(mixed) - 5, 100) == mixed[-5:]
    assert found.read_at(len(mixed) + 5, 100) == b""
    assert len(found.blocks) <= 16


def test_what_was_kept_is_not_inflated_again(inflated: Inflated, mixed: bytes) -> None:
    found = inflated(mixed)
    found.passed = []  # nothing to inflate from
    for page in (40, 64, 127, 801):
        assert found.read_at(page * 4096, 4096) == mixed[page * 4096 : (page + 1) * 4096]
    assert found.read_at(0, 1000) == mixed[:1000]
    assert found.read_at(len(mixed) - 1000, 1000) == mixed[-1000:]
    with pytest.raises(IndexError):
        found.read_at(3 << 20, 10)


def test_a_forged_table_is_not_read_into_memory(inflated: Inflated) -> None:
    found = inflated(bytes(40 << 20))
    with pytest.raises(InvalidInput, match="a table at 0x0 claims to have 41943040 bytes"):
        found.read_at(0, 40 << 20)


# Host libraries.


def test_a_library_and_what_it_needs(tmp_path: Path, library: Callable[..., bytes]) -> None:
    data = library("-Wl,-soname,libx.so.1", "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../y")
    [elf] = gathered(tmp_path, "demo/lib/libx.so.1", data).elf
    assert elf == ElfFacts(
        "demo/lib/libx.so.1", soname="libx.so.1", rpath="$ORIGIN/../y", stack="rw", writable_dynamic=True
    )


def test_stack_text_relocations_and_dynamic_table(tmp_path: Path, library: Callable[..., bytes]) -> None:
    def elf(data: bytes) -> ElfFacts:
        return gathered(tmp_path, "demo/x.so", data).elf[0]

    assert elf(library("-Wl,-z,execstack")).stack == "rwx"
    data = bytearray(library())
    entry, count = 64, struct.unpack_from("<H", data, 56)[0]
    dynamic = None
    for at in range(entry, entry + 56 * count, 56):
        kind, _, offset = struct.unpack_from("<IIQ", data, at)
        if kind == 0x6474E551:
            without = data[:at] + struct.pack("<I", 0) + data[at + 4 :]
            assert elf(bytes(without)).stack is None
        if kind == 2:
            dynamic = offset
    assert dynamic is not None
    readonly = bytearray(data)
    for at in range(entry, entry + 56 * count, 56):
        if struct.unpack_from("<I", data, at)[0] == 1:
            readonly[at + 4] &= ~2
    assert elf(bytes(readonly)).writable_dynamic is False
    # A segment that ends before the table, on the same page: the system maps the page as a whole.
    cut = bytearray(data)
    for at in range(entry, entry + 56 * count, 56):
        kind, flags, _, start = struct.unpack_from("<IIQQ", data, at)
        if kind == 1 and flags & 2:
            struct.pack_into("<QQ", cut, at + 32, 8, 8)
            assert start // 4096 == (start + 8) // 4096
    assert elf(bytes(cut)).writable_dynamic is True
    # The first entry becomes DT_TEXTREL, then DT_FLAGS with DF_TEXTREL, then with another flag.
    for tag, value, expected in ((22, 0, True), (30, 4, True), (30, 2, False)):
        changed = bytearray(data)
        struct.pack_into("<qQ", changed, dynamic, tag, value)
        found = elf(bytes(changed))
        assert found.problem is None and found.text_relocations is expected


def test_a_relocatable_file_and_a_program(tmp_path: Path) -> None:
    data = build_library(tmp_path / "a", bundles=[], kind="exec").read_bytes()
    facts = gathered(tmp_path, "demo/bin/tool", data)
    assert (facts.elf[0].kind, facts.elf[0].interp) == ("exec", "/lib64/ld-linux-x86-64.so.2")
    data = (tmp_path / "a/.build/fat.o").read_bytes()
    [elf] = gathered(tmp_path, "demo/fat.o", data).elf
    assert (elf.kind, elf.writable_dynamic, elf.stack) == ("rel", None, None)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x7fELF", "the file ends inside the ELF header"),
        (b"\x7fELF\1\1" + bytes(100), "only 64-bit little-endian ELF is supported"),
        (b"\x7fELF\2\1" + bytes(100), "unknown ELF type 0"),
    ],
)
def test_a_library_that_cannot_be_read(data: bytes, says: str, tmp_path: Path) -> None:
    assert gathered(tmp_path, "demo/x", data).elf == (ElfFacts("demo/x", problem=says),)


def test_a_library_that_is_none(tmp_path: Path) -> None:
    [elf] = gathered(tmp_path, "demo/libx.so.1.2", bytes(200_000)).elf
    assert elf.problem == "it is named like a library, but is not an ELF file"
    for name, data in (("x.so", b"INPUT(libx.so.1)\n"), ("x.so", b""), ("x.sow", bytes(9)), ("so", bytes(9))):
        assert gathered(tmp_path, f"demo/{name}", data).elf == ()


def test_a_split_library(tmp_path: Path) -> None:
    def marked(marker: bytes, flags: str = "a") -> bytes:
        words = ",".join(map(str, marker))
        asm = f'.section .rocm_kpack_ref,"{flags}",@progbits\n.byte {words}\n'
        return library_of(tmp_path / "a", [], extra_asm=asm)

    marker = Marker(("../.kpack/x_@GFXARCH@.kpack",), "lib/libx.so")
    [elf] = gathered(tmp_path, "demo/libx.so", marked(pack_marker(marker))).elf
    assert (elf.marker, elf.problem) == (marker, None)
    [elf] = gathered(tmp_path, "demo/libx.so", marked(b"\xff")).elf
    assert elf.marker is None
    assert elf.problem is not None and elf.problem.startswith("this is not a kpack marker")


# Device code in libraries.


def fat(folder: Path, *, packed: bool, size: int, wrong: int | None = None) -> bytes:
    """A library with eight bundles; the code of one of them is for another target than it says."""
    made = []
    for number in range(8):
        pairs = [(t, code(t, noise(4 * number + n, size // 32), 1)) for n, t in enumerate(TARGETS)]
        if number == wrong:
            pairs[0] = (TARGETS[0], code("gfx1100", noise(99, size // 32), 1))
        made.append(ccob(bundle(pairs)) if packed else bundle(pairs))
    return library_of(folder, made)


@BOTH
@pytest.mark.parametrize("size", [1 << 17, 6 << 20], ids=["small", "large"])
@pytest.mark.parametrize("packed", [False, True], ids=["raw", "packed"])
def test_targets_and_code_that_is_not_what_it_says(
    packed: bool, size: int, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = fat(tmp_path / "a", packed=packed, size=size)
    assert (len(good) > members.WHOLE) == (size > 1 << 20)
    [elf] = gathered(tmp_path, "demo/x.so", good, stored=stored).elf
    assert (elf.targets, elf.wrong_code, elf.problem) == (frozenset(TARGETS), (), None)
    bad = fat(tmp_path / "b", packed=packed, size=size, wrong=5)
    [elf] = gathered(tmp_path, "demo/x.so", bad, stored=stored).elf
    assert elf.wrong_code == (WrongCode("gfx906", "its header says gfx1100"),)
    # The same when nothing was kept on the way.
    monkeypatch.setattr(skim, "_MOST_KEPT", 0)
    assert gathered(tmp_path, "demo/x.so", bad, stored=stored).elf == (elf,)


def test_features_count(tmp_path: Path) -> None:
    data = library_of(tmp_path, [bundle([("gfx90a:xnack+", code("gfx90a:xnack-"))])])
    [elf] = gathered(tmp_path, "demo/x.so", data).elf
    assert elf.wrong_code == (WrongCode("gfx90a:xnack+", "its header says xnack-"),)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", ["zstd", "zlib"])
def test_every_code_object_of_small_compressed_bundles(method: str, version: int, tmp_path: Path) -> None:
    pairs = [*((target, code(target)) for target in TARGETS[:3]), ("gfx1100", code("gfx906"))]
    data = library_of(tmp_path, [ccob(bundle(pairs), version, method)])
    [elf] = gathered(tmp_path, "demo/x.so", data).elf
    assert elf.targets == frozenset(TARGETS)
    assert elf.wrong_code == (WrongCode("gfx1100", "its header says gfx906"),)


def test_of_large_compressed_bundles_the_first_code_object(tmp_path: Path) -> None:
    pairs = [("gfx906", code("gfx906", noise(1, 5 << 20), 1)), ("gfx1100", code("gfx906"))]
    data = library_of(tmp_path, [ccob(bundle(pairs))])
    [elf] = gathered(tmp_path, "demo/x.so", data).elf
    assert (elf.targets, elf.wrong_code) == ({"gfx906", "gfx1100"}, ())


def test_code_that_is_no_code_and_targets_nobody_knows(tmp_path: Path) -> None:
    pairs = [
        ("gfx906", b"nothing like it"),
        ("hip-spirv64-amd-amdhsa--amdgcnspirv", b"\3\2#\7"),
        ("gfx7777777", b"who knows"),
    ]
    data = library_of(tmp_path, [bundle(pairs)])
    [elf] = gathered(tmp_path, "demo/x.so", data).elf
    assert elf.targets == {"gfx906", "amdgcnspirv", "gfx7777777"}
    assert WrongCode("gfx906", "it is not an AMDGPU code object") in elf.wrong_code
    assert "amdgcnspirv" not in {one.said for one in elf.wrong_code}


@pytest.mark.parametrize("size", [0, 5 << 20], ids=["small", "large"])
def test_device_code_that_cannot_be_read(size: int, tmp_path: Path) -> None:
    data = library_of(tmp_path, [bundle([("gfx906", code("gfx906", noise(1, size), 1))]), b"nonsense"])
    [elf] = gathered(tmp_path, "demo/x.so", data).elf
    assert elf.kind == "dyn" and elf.soname is None
    assert elf.problem is not None and "neither a bundle nor padding" in elf.problem
    assert "x.so" not in elf.problem


def test_bundles_that_begin_anywhere(tmp_path: Path) -> None:
    """Without page boundaries nothing is kept, and everything is found."""
    made = [bundle([(t, code(t, noise(n, 1 << 19), 1))]) for n, t in enumerate(TARGETS * 3)]
    data = library_of(tmp_path, made, bundle_align=16, prefix=bytes(48))
    assert len(data) > members.WHOLE
    [elf] = gathered(tmp_path, "demo/x.so", data).elf
    assert (elf.targets, elf.wrong_code, elf.problem) == (frozenset(TARGETS), (), None)


# Code in files of its own.


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("rocblas/library/Kernels_gfx90a.hsaco", "gfx90a", ("gfx90a", "gfx90a", None)),
        ("rocblas/library/Kernels_gfx90a-xnack-.hsaco", "gfx90a:xnack-", ("gfx90a", "gfx90a", None)),
        ("rocblas/library/Kernels_gfx90a.co", "gfx942", ("gfx90a", "gfx942", "its header says gfx942")),
        ("torch/lib/aotriton.images/amd-gfx11xx/a.co", "gfx1100", ("gfx11", "gfx1100", None)),
        ("aotriton.images/amd-gfx11xx/a.co", "gfx906", ("gfx11", "gfx906", "its header says gfx906")),
        ("other/hsa/gfx942/fwd.co", "gfx906", ("gfx942", "gfx906", "its header says gfx906")),
        ("other/hsa/gfx906/fwd.co", "gfx906", ("gfx906", "gfx906", None)),
        ("other/gfx906_or_gfx942.co", "gfx906", (None, "gfx906", None)),
        ("other/fwd.co", "gfx906", (None, "gfx906", None)),
        ("rocblas/library/Kernels_gfx7777.co", "gfx906", ("gfx7777", "gfx906", None)),
    ],
)
def test_a_code_object_and_its_path(
    name: str, target: str, expected: tuple[str | None, str, str | None], tmp_path: Path
) -> None:
    facts = gathered(tmp_path, f"demo/{name}", code(target))
    said, machine, wrong = expected
    assert facts.code == (CodeFile(f"demo/{name}", said, machine, wrong),)
    assert facts.elf == ()


@BOTH
def test_a_large_code_object(stored: bool, tmp_path: Path) -> None:
    name = "demo/rocblas/library/Kernels_gfx906.co"
    data = code("gfx1100", noise(1, 5 << 20), 1)
    facts = gathered(tmp_path, name, data, stored=stored)
    assert facts.code == (CodeFile(name, "gfx906", "gfx1100", "its header says gfx1100"),)


def test_a_code_object_that_was_cut(tmp_path: Path) -> None:
    facts = gathered(tmp_path, "demo/x.co", code("gfx906")[:40])
    assert facts.code == (CodeFile("demo/x.co", wrong="its header is cut or malformed"),)


def test_databases(tmp_path: Path, library: Callable[..., bytes]) -> None:
    files = {
        "demo/share/miopen/db/gfx90a68.kdb": b"k",
        "demo/rocblas/library/TensileLibrary_gfx942.dat": noise(1, 5 << 20),
        "demo/rocblas/library/TensileLibrary.dat": b"for all",
        "demo/lib/libMIOpenCKGroupedConv_gfx942.so": library(),
        "demo/readme_gfx942.txt": b"t",
    }
    facts = gather(write(tmp_path, files))
    names = list(files)
    said = [(names[0], "gfx90a"), (names[1], "gfx942"), (names[3], "gfx942")]
    assert facts.code == tuple(CodeFile(*one) for one in said)
    assert [elf.member for elf in facts.elf] == [names[3]]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_bundles(packed: bool, large: bool, tmp_path: Path) -> None:
    def file(*pairs: tuple[str, str]) -> bytes:
        text = noise(1, 5 << 20) if large else b""
        raw = bundle([(said, code(built, text, 1)) for said, built in pairs])
        return ccob(raw) if packed else raw

    name = "demo/rocblas/library/Kernels_gfx906.hsaco"

    def found(data: bytes) -> tuple[str | None, set[str]]:
        [one] = gathered(tmp_path, name, data).code
        assert one.said == "gfx906"
        return one.wrong, set(one.targets)

    assert found(file(("gfx906", "gfx906"))) == (None, {"gfx906"})
    assert found(file(("gfx942", "gfx942"))) == ("it holds code for gfx942", {"gfx942"})
    told = "its code for gfx906: its header says gfx942"
    assert found(file(("gfx906", "gfx942"))) == (told, {"gfx906"})
    wrong, targets = found(file(("gfx906", "gfx906"))[:-10])
    assert wrong is not None and targets == set()


@pytest.mark.parametrize(
    ("name", "for_all"),
    [
        # As hipBLASLt 1.1 has it.
        ("demo/hipblaslt/library/hipblasltTransform.hsaco", True),
        ("demo/hipblaslt/library/Kernels_gfx906.hsaco", False),
        ("demo/lib/kernels.hsaco", False),
    ],
)
def test_bundles_that_are_opened_by_one_name_on_every_gpu(name: str, for_all: bool, tmp_path: Path) -> None:
    [one] = gathered(tmp_path, name, bundle([("gfx906", code("gfx906", b"", 1))])).code
    assert (one.for_all, one.targets) == (for_all, {"gfx906"})


# Archives.


def archive_of(folder: Path, built: Iterable[str], size: int, **options: object) -> bytes:
    objects = {(f"lib/{n}.so", n): code(t, noise(n, size), 1) for n, t in enumerate(built)}
    write_archive(folder / "x.kpack", "gfx906", objects, **options)
    return (folder / "x.kpack").read_bytes()


@BOTH
@pytest.mark.parametrize("size", [1000, 1 << 20], ids=["small", "large"])
def test_an_archive(size: int, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "demo/.kpack/x_gfx906.kpack"
    data = archive_of(tmp_path, ["gfx906"] * 7, size)
    assert (len(data) > members.WHOLE) == (size > 1000)
    kernels = frozenset(f"lib/{number}.so" for number in range(7))
    facts = gathered(tmp_path, name, data, stored=stored)
    wrappers = {f"lib/{number}.so": number + 1 for number in range(7)}
    assert facts.archives == (KpackFacts(name, kernels, frozenset({"gfx906"}), wrappers=wrappers),)
    assert facts.code == facts.elf == ()
    data = archive_of(tmp_path, ["gfx906"] * 5 + ["gfx1100", "gfx906"], size)
    [found] = gathered(tmp_path, name, data, stored=stored).archives
    assert found.wrong_code == (WrongCode("gfx906", "its header says gfx1100"),)
    monkeypatch.setattr(skim, "_MOST_KEPT", 0)
    assert gathered(tmp_path, name, data, stored=stored).archives == (found,)


def test_an_archive_without_compression(tmp_path: Path) -> None:
    objects = {("a", 0): code("gfx906"), ("b", 0): code("gfx942")}
    with_plain_archive(tmp_path / "x.kpack", "gfx942", objects)
    [found] = gathered(tmp_path, "demo/x.kpack", (tmp_path / "x.kpack").read_bytes()).archives
    assert found == KpackFacts(
        "demo/x.kpack",
        frozenset({"a", "b"}),
        frozenset({"gfx942"}),
        (WrongCode("gfx942", "its header says gfx906"),),
        wrappers={"a": 1, "b": 1},
    )


def test_an_archive_whose_entries_are_for_another_target_than_itself(tmp_path: Path) -> None:
    data = archive_of(tmp_path, ["gfx942"], 10, entry_target="gfx942")
    [found] = gathered(tmp_path, "demo/x.kpack", data).archives
    assert (found.targets, found.wrong_code) == ({"gfx906", "gfx942"}, ())


@pytest.mark.parametrize(
    ("origin", "built", "wrong"),
    [
        ("gfx90a", "gfx90a", None),
        ("gfx90a:xnack+", "gfx90a:xnack+", None),
        ("gfx90a", "gfx90a:xnack+", "its header says xnack+"),
        ("gfx90a:xnack-", "gfx90a:xnack-", "it was built for gfx90a:xnack-"),
        ("gfx906", "gfx906", "it was built for gfx906"),
    ],
)
def test_code_for_fewer_features_in_a_more_specific_archive(
    origin: str, built: str, wrong: str | None, tmp_path: Path
) -> None:
    data = code(built)
    with (tmp_path / "x.kpack").open("wb") as stream:
        writer = ArchiveWriter(stream, "x", "gfx90a:xnack+")
        ordinal = writer.add(zstandard.compress(data))
        entry = Entry("a", 0, "gfx90a:xnack+", ordinal, len(data))
        writer.enter(msgspec.structs.replace(entry, id=f"hipv4-amdgcn-amd-amdhsa--{origin}"))
        writer.close()
    [found] = gathered(tmp_path, "demo/x.kpack", (tmp_path / "x.kpack").read_bytes()).archives
    assert [one.what for one in found.wrong_code] == ([wrong] if wrong else [])


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_archives_that_cannot_be_read(size: int, tmp_path: Path) -> None:
    data = archive_of(tmp_path, ["gfx906"] * 6, size)
    for broken, says in (
        (data[:16], "its table of contents at"),
        (data[:4] + b"\7" + data[5:], "format version 7"),
        (data[:-1], "its table of contents is malformed"),
        (b"text", "this is not a kpack archive"),
        (data[:68] + b"\xff\xff\xff\xff" + data[72:], "a frame of 4294967295 bytes does not fit"),
    ):
        [found] = gathered(tmp_path, "demo/x.kpack", broken).archives
        assert found.problem is not None and says in found.problem
    [found] = gathered(tmp_path, "demo/x.kpack", data[:72] + b"none" + data[76:]).archives
    assert found.wrong_code == (WrongCode("gfx906", "it is not an AMDGPU code object"),)


# Windows.


def image(section: bytes, content: bytes = b"") -> bytes:
    """A DLL for x86-64 that has headers and one section, by the PE format specification."""
    data = bytearray(0x400)
    data[:2], data[60:64] = b"MZ", struct.pack("<I", 0x80)
    data[0x80:0x98] = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 112 + 16 * 8, 0x2002)
    data[0x98:0x9A] = struct.pack("<H", 0x20B)
    data[0x188:0x1B0] = struct.pack(
        "<8sIIIIIIHHI", section, 0x200, 0x1000, len(content), 0x400, 0, 0, 0, 0, 0
    )
    return bytes(data) + content


def test_images(tmp_path: Path) -> None:
    for data, expected in ((image(b".text"), False), (image(b".hip_fat"), True)):
        facts = gathered(tmp_path, "demo/bin/x.dll", data)
        assert [(pe.member, pe.is_dll, pe.device_code, pe.problem) for pe in facts.pe] == [
            ("demo/bin/x.dll", True, expected, None)
        ]
        assert facts.elf == ()


@pytest.mark.parametrize("size", [100, 3 << 20], ids=["small", "streamed"])
def test_targets_of_a_dll(size: int, tmp_path: Path) -> None:
    whole = bundle([(target, code(target, b"", size)) for target in TARGETS[:2]])
    for content, expected in ((whole, {*TARGETS[:2]}), (ccob(whole, 3), {*TARGETS[:2]}), (whole[:60], set())):
        data = image(b".hip_fat", content + bytes(-len(content) % 512))
        [pe] = gathered(tmp_path, "demo/bin/x.dll", data).pe
        assert (pe.device_code, pe.targets, pe.problem) == (True, expected, None)


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("x.dll", bytes(100), "this is not a PE image"),
        ("x.PYD", b"MZ" + bytes(10), "the file ends inside the DOS header"),
        ("x.exe", b"MZ" + bytes(100), "this is a DOS program, not a PE image"),
        ("x.com", b"MZ" + bytes(100), None),
        ("x.dll", b"a stand-in of text", None),
        ("x.txt", b"MZ is how it begins", None),
    ],
)
def test_what_is_no_image(name: str, data: bytes, problem: str | None, tmp_path: Path) -> None:
    found = gathered(tmp_path, f"demo/{name}", data).pe
    assert [pe.problem for pe in found] == ([problem] if problem else [])


def test_large_members_of_no_kind_are_only_digested(tmp_path: Path) -> None:
    for stored in (False, True):
        facts = gathered(tmp_path, "demo/x.bin", noise(1, 5 << 20), stored=stored)
        assert facts.elf == facts.pe == facts.code == facts.archives == ()


def test_members_damaged_anywhere_are_facts_and_never_errors(tmp_path: Path) -> None:
    """RECORD and CRC would be right for them: whoever built the wheel packed what it had."""
    code_of_three = bundle([(target, code(target, b"", 1)) for target in TARGETS[:3]])
    packed = [ccob(code_of_three, 3), ccob(code_of_three, 1), ccob(code_of_three, 2, "zlib")]
    seeds = {
        "demo/raw.so": library_of(tmp_path / "a", [code_of_three] * 2),
        "demo/packed.so": library_of(tmp_path / "b", packed),
        "demo/x.kpack": archive_of(tmp_path, ["gfx906"] * 3, 100),
        "demo/raw.co": code_of_three,
        "demo/packed.co": packed[0],
        "demo/x.dll": image(b".hip_fat"),
    }
    look, chance = Look(), random.Random(5)
    for _ in range(1500):
        name, good = chance.choice(list(seeds.items()))
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 2, 5])):
            at = chance.choice([chance.randrange(len(data)), chance.randrange(min(512, len(data)))])
            odd = [0, 1, 2**64 - 1, 2**63, chance.getrandbits(64), chance.randrange(len(data))]
            size = chance.choice([1, 4, 8])
            data[at : at + size] = chance.choice(odd).to_bytes(8, "little")[:size]
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        assert isinstance(look(name, Mapped(Path(name), bytes(data))), Found)
        Skim(Path(name), len(data)).see(0, bytes(data))
