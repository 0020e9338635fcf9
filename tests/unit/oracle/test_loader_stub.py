"""The stand-in runtime finds device code as described, on libraries and archives made by hand."""

import os
import struct
import subprocess
from pathlib import Path

import pytest
import zstandard
from elftools.elf.elffile import ELFFile

from oracle.loader import HIPF, HIPK, Entry, load, run_program

NAME = "stage/lib/libdemo.so"
ISA = "gfx942:sramecc+:xnack-"

# What the libraries are linked against; a real runtime would do something, this one must never be reached.
REAL_RUNTIME = "#include <stdlib.h>\nvoid **__hipRegisterFatBinary(const void *w) { (void)w; abort(); }\n"

SOURCE = """
struct wrapper { unsigned magic, version; const void *binary; unsigned low, high; };
%(data)s
__attribute__((section(".hipFatBinSegment"), used)) static struct wrapper wrappers[] = { %(wrappers)s };
void **__hipRegisterFatBinary(const void *);
__attribute__((constructor)) static void register_all(void) {
    for (unsigned i = 0; i < sizeof wrappers / sizeof *wrappers; i++) __hipRegisterFatBinary(wrappers + i);
}
%(more)s
"""


def gcc(*words: object) -> None:
    subprocess.run(["gcc", *map(str, words)], check=True, capture_output=True)


def pack(value: object) -> bytes:
    """MessagePack of the types that the formats use, in their widest encodings."""
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        return b"\xda" + struct.pack(">H", len(value.encode())) + value.encode()
    if isinstance(value, list):
        return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(pack, value))
    assert isinstance(value, dict)
    return b"\xde" + struct.pack(">H", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())


def marker(path: str = "../.kpack/demo_@GFXARCH@.kpack", name: str = NAME) -> bytes:
    return pack({"kpack_search_paths": [path], "kernel_name": name})


def library_source(contents: list[bytes], magic: int = HIPK, more: str = "") -> str:
    """C of a library with one wrapper for each content, in order."""
    section = ".hip_fatbin" if magic == HIPF else ".rocm_kpack_ref"
    data = [
        f'__attribute__((section("{section}"))) static const unsigned char content_{i}[] = '
        f"{{ {','.join(map(str, content))} }};"
        for i, content in enumerate(contents)
    ]
    lows = [i if magic == HIPK else 0 for i in range(len(contents))]
    wrappers = [f"{{ {magic:#x}, 1, content_{i}, {low}, 0 }}" for i, low in enumerate(lows)]
    return SOURCE % {"data": "\n".join(data), "wrappers": ", ".join(wrappers), "more": more}


def build(target: Path, source: str, *options: str) -> Path:
    """Link a library or program against a runtime called libamdhip64.so.6 with symbol version hip_4.2."""
    scratch = target.parent.parent / "scratch"
    for directory in (target.parent, scratch):
        directory.mkdir(parents=True, exist_ok=True)
    (scratch / "runtime.c").write_text(REAL_RUNTIME)
    (scratch / "versions").write_text("hip_4.2 { global: *; };")
    (scratch / "demo.c").write_text(source)
    runtime = scratch / "libamdhip64.so.6"
    names = ["-Wl,-soname,libamdhip64.so.6", f"-Wl,--version-script,{scratch / 'versions'}"]
    gcc("-shared", "-fPIC", *names, "-o", runtime, scratch / "runtime.c")
    kind = [] if "-pie" in options else ["-shared"]
    gcc(*kind, "-fPIC", *options, "-o", target, scratch / "demo.c", runtime)
    return target


def split_library(root: Path, wrappers: int = 1, content: bytes | None = None) -> Path:
    return build(root / "lib" / "libdemo.so", library_source([content or marker()] * wrappers))


def kpack(path: Path, objects: dict[tuple[str, str], bytes], scheme: str = "none", **changes: object) -> Path:
    """An archive with one blob for each (key, arch), ordinals in order."""
    toc: dict[str, dict[str, object]] = {}
    for ordinal, ((key, arch), data) in enumerate(objects.items()):
        entry = {"type": "hsaco", "ordinal": ordinal, "original_size": len(data), **changes}
        toc.setdefault(key, {})[arch] = {k: v for k, v in entry.items() if k in ENTRY_KEYS}
    area, tables = ZSTD_AREA(objects) if scheme == "zstd-per-kernel" else PLAIN_AREA(objects)
    top = {"toc": toc, "compression_scheme": scheme, **tables}
    top |= {key: value for key, value in changes.items() if key not in ENTRY_KEYS}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"KPAK" + struct.pack("<IQ48x", 1, 64 + len(area)) + area + pack(top))
    return path


ENTRY_KEYS = ("type", "ordinal", "original_size")


def PLAIN_AREA(objects: dict[tuple[str, str], bytes]) -> tuple[bytes, dict[str, object]]:
    area, blobs = b"", []
    for data in objects.values():
        blobs.append({"offset": 64 + len(area), "size": len(data)})
        area += data
    return area, {"blobs": blobs}


def ZSTD_AREA(objects: dict[tuple[str, str], bytes]) -> tuple[bytes, dict[str, object]]:
    frames = [zstandard.compress(data) for data in objects.values()]
    area = struct.pack("<I", len(frames)) + b"".join(struct.pack("<I", len(f)) + f for f in frames)
    return area, {"zstd_offset": 64, "zstd_size": len(area)}


def bundle(objects: dict[str, bytes]) -> bytes:
    """A raw offload bundle with an empty host entry first."""
    triples = ["host-x86_64-unknown-linux-gnu-", *(f"hipv4-amdgcn-amd-amdhsa--{arch}" for arch in objects)]
    header = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(triples))
    offset, payload = 4096, b""
    for triple, data in zip(triples, [b"", *objects.values()], strict=True):
        header += struct.pack("<QQQ", offset + len(payload), len(data), len(triple)) + triple.encode()
        payload += data
    return header.ljust(4096, b"\0") + payload


# ---- split libraries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_each_wrapper_gets_its_own_code_object(tmp_path: Path, scheme: str) -> None:
    library = split_library(tmp_path, wrappers=2)
    objects = {(f"{NAME}#0", "gfx942"): b"first " * 50, (f"{NAME}#1", "gfx942"): b"second " * 60}
    archive = kpack(tmp_path / ".kpack/demo_gfx942.kpack", objects, scheme)
    loading = load(library, isa=ISA, workdir=tmp_path / "work")
    assert (loading.error, loading.error_now) == ("", "")
    assert [r.read() for r in loading] == [b"first " * 50, b"second " * 60]
    assert [(r.number, r.low, r.high, r.version, r.magic) for r in loading] == [
        (0, 0, 0, 1, HIPK),
        (1, 1, 0, 1, HIPK),
    ]
    assert {r.kernel_name for r in loading} == {NAME}
    assert {r.paths for r in loading} == {("../.kpack/demo_@GFXARCH@.kpack",)}
    assert all(r.archive.samefile(archive) for r in loading)
    assert {r.library for r in loading} == {r.binary for r in loading} == {library.resolve()}
    assert loading[0].head == marker()[:64]
    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".hipFatBinSegment")
        assert [r.wrapper for r in loading] == [section["sh_addr"], section["sh_addr"] + 24]


def test_the_most_specific_archive_that_exists_is_used(tmp_path: Path) -> None:
    library = split_library(tmp_path)
    found = []
    for arch in ("gfx942", "gfx942:xnack-", "gfx942:sramecc+", "gfx942:sramecc+:xnack-"):
        kpack(tmp_path / f".kpack/demo_{arch}.kpack", {(f"{NAME}#0", arch): arch.encode()})
        found.append(load(library, isa=ISA, workdir=tmp_path / "work")[0].read().decode())
    assert found == ["gfx942", "gfx942:xnack-", "gfx942:sramecc+", "gfx942:sramecc+:xnack-"]


def test_the_most_specific_entry_of_an_archive_is_used(tmp_path: Path) -> None:
    library = split_library(tmp_path)
    names = ["gfx942", "gfx942:xnack+", "gfx942:xnack-"]
    kpack(tmp_path / ".kpack/demo_gfx942.kpack", {(f"{NAME}#0", a): a.encode() for a in names})
    loaded = {
        isa: load(library, isa=isa, workdir=tmp_path / "work")[0].arch
        for isa in ("gfx942", "gfx942:sramecc+:xnack+", ISA, "gfx942:sramecc+")
    }
    assert loaded == {
        "gfx942": "gfx942",
        "gfx942:sramecc+:xnack+": "gfx942:xnack+",
        ISA: "gfx942:xnack-",
        "gfx942:sramecc+": "gfx942",
    }


def test_a_generic_isa_serves_where_the_native_one_is_absent(tmp_path: Path) -> None:
    library = split_library(tmp_path)
    kpack(tmp_path / ".kpack/demo_gfx9-4-generic.kpack", {(f"{NAME}#0", "gfx9-4-generic"): b"generic"})
    assert load(library, isa=f"{ISA},gfx9-4-generic", workdir=tmp_path / "work")[0].read() == b"generic"


def test_only_newer_runtimes_go_past_an_archive_that_lacks_the_kernel(tmp_path: Path) -> None:
    library = split_library(tmp_path, wrappers=2)
    kpack(tmp_path / ".kpack/demo_gfx942:xnack-.kpack", {(f"{NAME}#0", "gfx942:xnack-"): b"specific"})
    kpack(tmp_path / ".kpack/demo_gfx942.kpack", {(f"{NAME}#1", "gfx942"): b"plain"})
    first, second = load(library, isa=ISA, workdir=tmp_path / "work")
    assert first.read() == b"specific"
    assert second.reason.endswith(f"demo_gfx942:xnack-.kpack: no entry {NAME}#1 in the archive")
    assert second.code_object is None
    newer = load(library, isa=ISA, workdir=tmp_path / "work", fall_through=True)
    assert [r.read() for r in newer] == [b"specific", b"plain"]


def test_an_absent_arch_is_told(tmp_path: Path) -> None:
    library = split_library(tmp_path)
    archive = kpack(tmp_path / ".kpack/demo_gfx90a.kpack", {(f"{NAME}#0", "gfx90a:xnack+"): b"x"})
    (no_archive,) = load(library, isa=ISA, workdir=tmp_path / "work")
    (no_entry,) = load(library, isa="gfx90a:xnack-", workdir=tmp_path / "work")
    assert (no_archive.reason, no_archive.code_object) == (f"no archive for {ISA}", None)
    assert no_entry.reason == (
        f"{tmp_path}/lib/../.kpack/{archive.name}: entry {NAME}#0 has no code object for gfx90a:xnack-"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"original_size": 4}, "blob of 5 bytes, expected 4"),
        ({"original_size": 2**40}, "original_size 1099511627776 is too large"),
        ({"ordinal": 1}, "ordinal outside `blobs`"),
        ({"type": "other"}, "the TOC entry is not an hsaco"),
        ({"compression_scheme": "lzma"}, "unknown compression_scheme lzma"),
        ({"blobs": [{"offset": 2**63, "size": 5}]}, "a blob lies outside the file"),
        ({"blobs": [{"offset": 64, "size": 2**64 - 1}]}, "a blob lies outside the file"),
    ],
)
def test_a_broken_entry_is_told(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    library = split_library(tmp_path)
    kpack(tmp_path / ".kpack/demo_gfx942.kpack", {(f"{NAME}#0", "gfx942"): b"12345"}, **changes)
    (registration,) = load(library, isa="gfx942", workdir=tmp_path / "work")
    assert reason in registration.reason
    assert registration.code_object is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"original_size": 6}, "decoded to 5 bytes, expected 6"),
        ({"original_size": 4}, "zstd cannot decode the frame into 4 bytes"),
        ({"ordinal": 1}, "ordinal outside the zstd area"),
        ({"zstd_size": 20}, "a frame lies outside the zstd area"),
        ({"zstd_size": 2**62}, "the zstd area lies outside the file"),
    ],
)
def test_a_broken_frame_is_told(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    library = split_library(tmp_path)
    objects = {(f"{NAME}#0", "gfx942"): b"12345"}
    kpack(tmp_path / ".kpack/demo_gfx942.kpack", objects, "zstd-per-kernel", **changes)
    (registration,) = load(library, isa="gfx942", workdir=tmp_path / "work")
    assert reason in registration.reason


@pytest.mark.parametrize(
    ("offset", "data", "reason"),
    [
        (0, b"XPAK", "has no KPAK magic"),
        (4, b"\x02", "has format version 2"),
        (8, b"\xff" * 8, "the TOC lies outside the file"),
        (69, b"\xdf\xff\xff\xff\xff", "the TOC is not whole"),
    ],
)
def test_a_broken_archive_is_told(tmp_path: Path, offset: int, data: bytes, reason: str) -> None:
    library = split_library(tmp_path)
    archive = kpack(tmp_path / ".kpack/demo_gfx942.kpack", {(f"{NAME}#0", "gfx942"): b"12345"})
    with archive.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)
    (registration,) = load(library, isa="gfx942", workdir=tmp_path / "work")
    assert reason in registration.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xc1", "the marker is not whole MessagePack"),
        (pack({"kernel_name": NAME}), "the marker has no kpack_search_paths"),
        (pack({"kpack_search_paths": [], "kernel_name": NAME}), "the marker has no kpack_search_paths"),
        (pack({"kpack_search_paths": ["a"]}), "the marker has no kernel_name"),
    ],
)
def test_a_broken_marker_is_told(tmp_path: Path, content: bytes, reason: str) -> None:
    (registration,) = load(split_library(tmp_path, content=content), isa=ISA, workdir=tmp_path / "work")
    assert registration.reason == reason


# ---- where the search starts ------------------------------------------------------------------------------


def test_a_hard_link_searches_from_its_own_place_and_a_symlink_from_its_target(tmp_path: Path) -> None:
    library = split_library(tmp_path)
    kpack(tmp_path / ".kpack/demo_gfx942.kpack", {(f"{NAME}#0", "gfx942"): b"beside the target"})
    elsewhere = tmp_path / os.fsdecode(b"else where \xff") / "lib"
    elsewhere.mkdir(parents=True)
    (elsewhere / "hard.so").hardlink_to(library)
    (elsewhere / "soft.so").symlink_to(library)
    (soft,) = load(elsewhere / "soft.so", isa=ISA, workdir=tmp_path / "work")
    (hard,) = load(elsewhere / "hard.so", isa=ISA, workdir=tmp_path / "work")
    assert (soft.binary, soft.read()) == (library, b"beside the target")
    assert (hard.binary, hard.reason) == (elsewhere / "hard.so", f"no archive for {ISA}")
    kpack(elsewhere.parent / ".kpack/demo_gfx942.kpack", {(f"{NAME}#0", "gfx942"): b"beside the link"})
    assert load(elsewhere / "hard.so", isa=ISA, workdir=tmp_path / "work")[0].read() == b"beside the link"
    assert load(elsewhere / "soft.so", isa=ISA, workdir=tmp_path / "work")[0].read() == b"beside the target"


def test_variables_replace_precede_and_disable_the_search(tmp_path: Path) -> None:
    library = split_library(tmp_path)
    kpack(tmp_path / ".kpack/demo_gfx942.kpack", {(f"{NAME}#0", "gfx942"): b"embedded"})
    other = kpack(tmp_path / "other/gfx942.kpack", {(f"{NAME}#0", "gfx942"): b"other"})

    def read(**environment: str) -> str:
        (registration,) = load(library, isa=ISA, workdir=tmp_path / "work", environment=environment)
        return registration.reason or registration.read().decode()

    template = str(other.parent / "@GFXARCH@.kpack")
    assert read(ROCM_KPACK_PATH=f"/absent/@GFXARCH@.kpack:{template}") == "other"
    assert read(ROCM_KPACK_PATH="/absent/@GFXARCH@.kpack") == f"no archive for {ISA}"
    assert read(ROCM_KPACK_PATH_PREFIX=template) == "other"
    assert read(ROCM_KPACK_PATH_PREFIX="/absent/@GFXARCH@.kpack") == "embedded"
    assert read(ROCM_KPACK_DISABLE="1") == "ROCM_KPACK_DISABLE is set"


# ---- fat libraries ----------------------------------------------------------------------------------------


def compressed(version: int, data: bytes) -> bytes:
    frame = zstandard.compress(data)
    sizes = {
        1: lambda: struct.pack("<I", len(data)),
        2: lambda: struct.pack("<II", 24 + len(frame), len(data)),
        3: lambda: struct.pack("<QQ", 32 + len(frame), len(data)),
    }[version]()
    return b"CCOB" + struct.pack("<HH", version, 1) + sizes + bytes(8) + frame


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_fat_library_yields_the_same_kind_of_answer(tmp_path: Path, version: int) -> None:
    raw = bundle({"gfx942": b"plain", "gfx942:xnack-": b"specific!", "gfx90a": b"other"})
    content = compressed(version, raw) if version else raw
    library = build(tmp_path / "lib" / "libdemo.so", library_source([content, content], HIPF))
    first, second = load(library, isa=ISA, workdir=tmp_path / "work")
    assert (first.magic, first.low, first.arch, first.read()) == (HIPF, 0, "gfx942:xnack-", b"specific!")
    assert second.read() == b"specific!"
    assert first.entries == (
        Entry("host-x86_64-unknown-linux-gnu-", 4096, 0),
        Entry("hipv4-amdgcn-amd-amdhsa--gfx942", 4096, 5),
        Entry("hipv4-amdgcn-amd-amdhsa--gfx942:xnack-", 4101, 9),
        Entry("hipv4-amdgcn-amd-amdhsa--gfx90a", 4110, 5),
    )
    assert (first.extent, first.compressed) == (4115, version > 0)
    assert first.head == content[:64]
    (absent, _) = load(library, isa="gfx1030", workdir=tmp_path / "work")
    assert absent.reason == "the bundle has no code object for the ISA"


def test_a_bundle_that_points_outside_the_library_is_told(tmp_path: Path) -> None:
    raw = bundle({"gfx942": b"x" * 5}).replace(struct.pack("<QQ", 4096, 5), struct.pack("<QQ", 2**31, 5))
    library = build(tmp_path / "lib" / "libdemo.so", library_source([raw], HIPF))
    (registration,) = load(library, isa="gfx942", workdir=tmp_path / "work")
    assert registration.reason == "the code object lies outside the bundle"


# ---- what else a library needs ----------------------------------------------------------------------------


def test_missing_libraries_and_loose_symbols_get_stand_ins(tmp_path: Path) -> None:
    scratch = tmp_path / "gone"
    scratch.mkdir()
    (scratch / "gone.c").write_text("int gone(void) { return 7; } int gone_data[4] = {1, 2, 3, 4};\n")
    (scratch / "versions").write_text("GONE_1 { global: gone; }; GONE_2 { global: gone_data; };")
    gone = scratch / "libgone.so.3"
    versions = f"-Wl,--version-script,{scratch / 'versions'}"
    gcc("-shared", "-fPIC", "-Wl,-soname,libgone.so.3", versions, "-o", gone, scratch / "gone.c")
    more = "int gone(void); extern int gone_data[]; extern int PyLoose(void); extern int hipLoose(void);\n"
    more += "int uses(void) { return gone() + gone_data[0] + PyLoose() + hipLoose(); }\n"
    source = library_source([marker()], more=more)
    library = build(tmp_path / "lib" / "libdemo.so", source, f"-Wl,--no-as-needed,{gone}")
    plain = subprocess.run(["ldd", library], capture_output=True, text=True, check=False)
    assert "libgone.so.3 => not found" in plain.stdout
    loading = load(library, isa=ISA, workdir=tmp_path / "work")
    assert (loading.error, loading.error_now, len(loading)) == ("", "", 1)


def test_a_real_runtime_beside_the_library_is_not_reached(tmp_path: Path) -> None:
    options = ["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN"]
    library = build(tmp_path / "lib" / "libdemo.so", library_source([marker()]), *options)
    (tmp_path / "scratch" / "libamdhip64.so.6").rename(tmp_path / "lib" / "libamdhip64.so.6")
    assert [r.reason for r in load(library, isa=ISA, workdir=tmp_path / "work")] == [f"no archive for {ISA}"]


def test_a_library_beside_registers_too(tmp_path: Path) -> None:
    inner = build(tmp_path / "lib" / "libdemo.so", library_source([marker()]), "-Wl,-soname,libdemo.so")
    source = library_source([marker(name="outer")])
    options = ["-Wl,--no-as-needed", str(inner)]
    outer = build(tmp_path / "other" / "libouter.so", source, *options)
    (tmp_path / "lib" / "libdemo.so").rename(tmp_path / "other" / "libdemo.so")
    loading = load(outer, isa=ISA, workdir=tmp_path / "work", runtime_paths=[outer.parent])
    assert [r.kernel_name for r in loading] == [NAME, "outer"]


def test_what_the_dynamic_linker_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    library = split_library(tmp_path)
    data = bytearray(library.read_bytes())
    (table,) = struct.unpack_from("<Q", data, 32)
    loads = [at for at in range(table, table + 56 * 4, 56) if struct.unpack_from("<I", data, at) == (1,)]
    (offset,) = struct.unpack_from("<Q", data, loads[1] + 8)
    struct.pack_into("<Q", data, loads[1] + 8, offset + 16)
    library.write_bytes(data)
    loading = load(library, isa=ISA, workdir=tmp_path / "work")
    assert list(loading) == []
    expected = f"{library}: ELF load command address/offset not page-aligned"
    assert (loading.error, loading.error_now) == (expected, expected)


def test_a_program_registers_before_it_runs(tmp_path: Path) -> None:
    more = "#include <stdio.h>\nint main(int n, char **words) { puts(words[n - 1]); return 5; }\n"
    source = library_source([marker()] * 2, more=more)
    program = build(tmp_path / "bin" / "demo", source, "-pie")
    objects = {(f"{NAME}#0", "gfx942"): b"first", (f"{NAME}#1", "gfx942"): b"second"}
    kpack(tmp_path / ".kpack/demo_gfx942.kpack", objects)
    run = run_program(program, ["hello"], isa=ISA, workdir=tmp_path / "work")
    assert (run.status, run.output) == (5, "hello\n")
    assert [r.read() for r in run] == [b"first", b"second"]
