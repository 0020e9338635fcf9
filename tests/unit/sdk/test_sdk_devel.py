"""The devel payload: a tar that the standard library reads at any offset, and a manifest by hand."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from pathlib import Path

import pytest
import sdk_trees as trees
from hypothesis import given, settings
from hypothesis import strategies as st

from rocwright.errors import InvalidInput
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.intake.tree import Layer, RocmTree, TreeFile
from rocwright.sdk.plan.devel import TarEntry, TarSource, plan_devel
from rocwright.sdk.plan.runtime import plan_runtime
from rocwright.sdk.table import package_table
from rocwright.wheel.source import BytesSource, FileSource
from trees import link, script, write

MODULES = {"core": "_rocm_sdk_core", "libraries": "_rocm_sdk_libraries_x", "devel": "_rocm_sdk_devel"}
ENTRIES = (
    TarEntry("include/empty.h", BytesSource(b"")),
    TarEntry("include/a.h", BytesSource(b"a" * 511)),
    TarEntry("include/block.h", BytesSource(b"b" * 512)),
    TarEntry("bin/tool", BytesSource(b"c" * 513), executable=True),
    TarEntry("llvm", link="lib/llvm"),
    TarEntry("include/" + "long/" * 40 + "name é.h", BytesSource(b"deep")),
    TarEntry("include/last.h", BytesSource(b"")),
)


def whole(archive: TarSource) -> bytes:
    return archive.read_at(0, archive.size)


def test_tarfile_reads_it() -> None:
    archive = TarSource(ENTRIES)
    with tarfile.open(fileobj=io.BytesIO(whole(archive)), mode="r:") as tar:
        members = tar.getmembers()
        content = {m.name: tar.extractfile(m).read() for m in members if m.isfile()}
    assert [m.name for m in members] == [entry.name for entry in ENTRIES]
    assert content == {e.name: e.source.data for e in ENTRIES if isinstance(e.source, BytesSource)}
    assert {m.name: m.mode for m in members if m.isfile() and m.mode != 0o644} == {"bin/tool": 0o755}
    (link,) = [m for m in members if m.issym()]
    assert (link.name, link.linkname) == ("llvm", "lib/llvm")
    # Nothing of this machine: no time, owner or group.
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}


def test_an_empty_archive_is_one() -> None:
    assert whole(TarSource([])) == b"\0" * 1024
    with tarfile.open(fileobj=io.BytesIO(whole(TarSource([])))) as tar:
        assert tar.getmembers() == []


def test_the_same_entries_give_the_same_bytes() -> None:
    assert whole(TarSource(ENTRIES)) == whole(TarSource(iter(ENTRIES)))


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=1600), max_size=6),
    st.integers(0, 20000),
    st.integers(0, 20000),
)
def test_any_piece_is_that_piece_of_the_whole(contents: list[bytes], offset: int, length: int) -> None:
    archive = TarSource(TarEntry(f"f{n}", BytesSource(data)) for n, data in enumerate(contents))
    data = whole(archive)
    assert len(data) == archive.size
    assert archive.read_at(offset, length) == data[offset : offset + length]
    pieces = [archive.read_at(at, 700) for at in range(0, archive.size, 700)]
    assert b"".join(pieces) == data


def test_a_file_that_shrinks_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"a" * 600)
    archive = TarSource([TarEntry("a", FileSource(path)), TarEntry("b", BytesSource(b"b" * 600))])
    path.write_bytes(b"a" * 100)
    with pytest.raises(InvalidInput, match="a"):
        whole(archive)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = trees.small_rocm(tmp_path_factory.mktemp("devel") / "rocm")
    link(root / "include/gone.h", "nowhere.h")
    link(root / "include/hip/alias.h", "hip_version.h")
    write(root / "include/rocprim/rocprim.hpp", "#pragma once\n")
    link(root / "include/rocprim/alias.hpp", "rocprim.hpp")
    link(root / "lib/cmake/amd", "../../llvm")  # a directory, through a link to it
    link(root / "lib/libhipold.so", "./libamdhip64.so.6.4.43484")
    script(root / "include/rocprim/tool with space.sh", "#!/bin/sh\n")
    return root


def payload(root: Path):
    prefix = read_prefix(root)
    return plan_devel(prefix, plan_runtime(prefix, package_table(), MODULES), MODULES)


def test_the_manifest_brings_every_path_of_the_prefix_back(rocm: Path) -> None:
    devel = payload(rocm)
    core, libraries = "../_rocm_sdk_core", "../@libraries@"
    expected = [
        [".info/version", "sibling", f"{core}/.info/version"],
        ["bin/.hipVersion", "link", "../share/hip/version"],
        ["bin/amdclang++", "link", "../lib/llvm/bin/clang-19"],
        ["bin/hipcc", "sibling", f"{core}/bin/hipcc"],
        ["bin/rocminfo", "sibling", f"{core}/bin/rocminfo"],
        ["include/hip/alias.h", "link", "hip_version.h"],
        ["include/hip/hip_version.h", "sibling", f"{core}/include/hip/hip_version.h"],
        ["include/rocprim/alias.hpp", "link", "rocprim.hpp"],
        ["include/rocprim/rocprim.hpp", "file", sha256(b"#pragma once\n")],
        ["include/rocprim/tool with space.sh", "file", sha256(b"#!/bin/sh\n")],
        ["lib/cmake/amd", "dirlink", "../llvm"],
        ["lib/cmake/hip/hip-config.cmake", "file", sha256(b"set(hip_FOUND 1)\n")],
        ["lib/libamdhip64.so", "link", "libamdhip64.so.6"],
        ["lib/libamdhip64.so.6", "sibling", f"{core}/lib/libamdhip64.so.6"],
        ["lib/libamdhip64.so.6.4.43484", "link", "libamdhip64.so.6"],
        ["lib/libamdhip64_static.a", "file", sha256(b"!<arch>\n")],
        ["lib/libhipold.so", "link", "libamdhip64.so.6"],
        ["lib/librocblas.so", "link", "librocblas.so.4"],
        ["lib/librocblas.so.4", "sibling", f"{libraries}/lib/librocblas.so.4"],
        ["lib/librocblas.so.4.4", "link", "librocblas.so.4"],
        ["lib/llvm/bin/clang", "link", "clang-19"],
        ["lib/llvm/bin/clang++", "link", "clang-19"],
        ["lib/llvm/bin/clang-19", "sibling", f"{core}/lib/llvm/bin/clang-19"],
        [
            "lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat",
            "sibling",
            f"{libraries}/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat",
        ],
        ["llvm", "dirlink", "lib/llvm"],
        ["share/hip/version", "sibling", f"{core}/share/hip/version"],
    ]
    assert json.loads(devel.manifest) == {"files": 26, "entries": expected}
    assert devel.left_out == (("include/gone.h", "leads nowhere: nowhere.h"),)


def test_the_archive_holds_exactly_the_files_of_the_manifest(rocm: Path) -> None:
    devel = payload(rocm)
    with tarfile.open(fileobj=io.BytesIO(whole(devel.archive))) as tar:
        found = {m.name: (sha256(tar.extractfile(m).read()), m.mode) for m in tar.getmembers()}
    files = {path: value for path, kind, value in json.loads(devel.manifest)["entries"] if kind == "file"}
    assert {name: digest for name, (digest, _) in found.items()} == files
    assert [file.path for file in devel.files] == sorted(files)
    assert len(files) == 4
    assert [name for name, (_, mode) in found.items() if mode & 0o111] == [
        "include/rocprim/tool with space.sh"
    ]


def test_many_device_files_beside_one_of_devel_take_no_longer_than_alone(tmp_path: Path) -> None:
    """A split ROCm has tens of thousands of files; the time must not grow with files times files."""
    place = write(tmp_path / "file", "x")
    file = TreeFile(place, place.stat())
    owners = {"bin/tool": "core", "lib/rocblas/library/readme.txt": "devel"}
    owners |= {f"include/rocprim/{number}.hpp": "devel" for number in range(4000)}
    device = {f"lib/rocblas/library/{number}_gfx942.co": file for number in range(2000)}
    tree = RocmTree(
        root=tmp_path,
        version="1",
        host=Layer(dict.fromkeys(owners, file), {}, {}),
        parts={"gfx942": Layer(device, {}, {})},
        split=True,
        owners=owners,
        code={},
    )
    runtime = plan_runtime(tree, package_table(), MODULES)
    before = time.process_time()
    devel = plan_devel(tree, runtime, MODULES)
    assert time.process_time() - before < 2
    kinds = [kind for _, kind, _ in json.loads(devel.manifest)["entries"]]
    assert {kind: kinds.count(kind) for kind in kinds} == {"sibling": 1, "file": 4001, "overlay": 2000}


def test_a_program_of_devel_keeps_no_path_of_the_machine_that_built_it(tmp_path: Path) -> None:
    root = trees.small_rocm(tmp_path / "rocm")
    hip = root / "lib/libamdhip64.so.6.4.43484"
    built_in = "-Wl,--enable-new-dtags,-rpath,/home/builder/build/lib"
    trees.program(root / "bin/rocblas-bench", flags=("-Wl,--no-as-needed", str(hip), built_in))
    devel = payload(root)
    with tarfile.open(fileobj=io.BytesIO(devel.archive.read_at(0, devel.archive.size))) as tar:
        member = tar.extractfile("bin/rocblas-bench")
        assert member is not None
        found = write(tmp_path / "rocblas-bench", member.read())
    facts = trees.dynamic(found)
    assert (facts["RPATH"], facts.get("RUNPATH")) == (["$ORIGIN/../lib"], None)
    entries = {path: (kind, value) for path, kind, value in json.loads(devel.manifest)["entries"]}
    assert entries["bin/rocblas-bench"] == ("file", sha256(found.read_bytes()))
