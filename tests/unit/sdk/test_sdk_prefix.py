"""Reading a prefix: what is none, its version, its links as the kernel sees them, its device code."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sdk_trees as trees
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.sdk.intake.forms import read_prefix
from trees import link, script, write

HEADER = "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 4\n#define HIP_VERSION_PATCH 43484\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The least that is a ROCm: its runtime library's name and a version."""
    root = tmp_path / "rocm"
    write(root / "lib/libamdhip64.so.6", "not even ELF")
    write(root / ".info/version", "6.4.1\n")
    return root


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidPrefix, match="not a directory"):
        read_prefix(tmp_path / "none")
    with pytest.raises(InvalidPrefix, match="not a directory"):
        read_prefix(write(tmp_path / "file", "x"))


@pytest.mark.parametrize("name", [None, "lib/libhip_hcc.so.3", "share/libamdhip64.so.6", "lib/libamdhip64.a"])
def test_no_rocm(tmp_path: Path, name: str | None) -> None:
    root = tmp_path / "usr"
    root.mkdir()
    if name:
        write(root / name, "x")
    with pytest.raises(InvalidPrefix, match="not a ROCm installation") as caught:
        read_prefix(root)
    assert "/opt/rocm" in (caught.value.next_step or "")


def test_a_prefix_may_be_named_by_a_link(root: Path, tmp_path: Path) -> None:
    prefix = read_prefix(link(tmp_path / "opt", "rocm"))
    assert prefix.root == root
    assert sorted(prefix.host.files) == [".info/version", "lib/libamdhip64.so.6"]


def test_native_packages_put_rocm_below_the_prefix(root: Path, tmp_path: Path) -> None:
    """In /opt/rocm, since ROCm 7.14: core-10.0, a link core, and links to what is in it."""
    opt = tmp_path / "opt"
    opt.mkdir()
    root = root.rename(opt / "core-10.0")
    for name, target in (("lib", "core-10.0/lib"), ("core", "core-10.0")):
        (opt / name).symlink_to(target)
    assert read_prefix(opt).root == root
    (opt / "core").unlink()
    prefix = read_prefix(opt)
    assert (prefix.root, prefix.version) == (root, "6.4.1")
    assert sorted(prefix.host.files) == [".info/version", "lib/libamdhip64.so.6"]


@pytest.mark.parametrize(
    ("info", "header", "expected"),
    [
        ("6.4.1-83\n", HEADER, "6.4.1"),
        ("7.10.0a20251124\n", None, "7.10.0a20251124"),
        (None, HEADER, "6.4.43484"),
        (None, HEADER.replace("MAJOR 6", "MAJOR    5"), "5.4.43484"),
    ],
)
def test_the_version_is_what_the_prefix_says(
    root: Path, info: str | None, header: str | None, expected: str
) -> None:
    (root / ".info/version").unlink()
    if info is not None:
        write(root / ".info/version", info)
    if header is not None:
        write(root / "include/hip/hip_version.h", header)
    assert read_prefix(root).version == expected
    assert read_prefix(root, version="9.9").version == "9.9"


@pytest.mark.parametrize("header", [None, "#define HIP_VERSION_MAJOR 6\n"])
def test_a_prefix_without_a_version_asks_for_it(root: Path, header: str | None) -> None:
    (root / ".info/version").unlink()
    if header is not None:
        write(root / "include/hip/hip_version.h", header)
    with pytest.raises(InvalidPrefix, match="does not say its version") as caught:
        read_prefix(root)
    assert "--version" in (caught.value.next_step or "")


def test_an_empty_version_file_does_not_hide_the_header(root: Path) -> None:
    write(root / ".info/version", "\n")
    write(root / "include/hip/hip_version.h", HEADER)
    assert read_prefix(root).version == "6.4.43484"


def test_links_are_followed_to_their_end(root: Path) -> None:
    write(root / "lib/llvm/bin/clang-19", "program")
    write(root / "share/data/a b é.txt", "data")
    for path, text in {
        "lib/libamdhip64.so": "libamdhip64.so.6",
        "lib/llvm/bin/clang": "clang-19",
        "lib/llvm/bin/clang++": "clang",
        "bin/amdclang++": "../lib/llvm/bin/clang++",  # three links long
        "llvm": "lib/llvm",
        "bin/through": "../llvm/bin/clang",  # through a link to a directory
        "é ü": "./share//data/a b é.txt",
        "share/data/self": "self",
        "share/data/ping": "pong",
        "share/data/pong": "ping",
        "share/data/gone": "not-there",
        "share/data/absolute": "/etc/hostname",
        "share/data/inside": str(root / "lib/libamdhip64.so.6"),
        "share/data/via": "absolute",
        "share/up": "data/..",
        "share/data/out": "../../../../../../../../etc/hostname",
    }.items():
        link(root / path, text)
    found = {path: (link.kind, link.target) for path, link in read_prefix(root).host.links.items()}
    clang = ("file", "lib/llvm/bin/clang-19")
    nowhere = ("dangling", "")
    assert found == {
        "lib/libamdhip64.so": ("file", "lib/libamdhip64.so.6"),
        "lib/llvm/bin/clang": clang,
        "lib/llvm/bin/clang++": clang,
        "bin/amdclang++": clang,
        "llvm": ("directory", "lib/llvm"),
        "bin/through": clang,
        "é ü": ("file", "share/data/a b é.txt"),
        "share/data/self": nowhere,
        "share/data/ping": nowhere,
        "share/data/pong": nowhere,
        "share/data/gone": nowhere,
        # Another machine has something else, or nothing, at an absolute path.
        "share/data/absolute": nowhere,
        "share/data/inside": nowhere,
        "share/data/via": nowhere,
        "share/up": ("directory", "share"),
        "share/data/out": nowhere,
    }


def test_a_link_out_of_the_tree_is_not_taken_for_one_inside(root: Path) -> None:
    write(root / "share/data", "x")
    link(root / "bin/tool", "../../share/data")  # <parent of the prefix>/share/data
    assert read_prefix(root).host.links["bin/tool"].kind == "dangling"


def test_a_link_through_two_directory_links(root: Path) -> None:
    write(root / "lib/llvm/bin/clang-19", "program")
    link(root / "llvm", "opt")
    link(root / "opt", "lib/llvm")
    link(root / "clang", "llvm/bin/clang-19")
    assert read_prefix(root).host.links["clang"].target == "lib/llvm/bin/clang-19"


def test_dots_behind_a_directory_link(root: Path) -> None:
    write(root / "lib/llvm/bin/clang-19", "program")
    link(root / "llvm", "lib/llvm")
    link(root / "bin/hip", "../llvm/../libamdhip64.so.6")
    assert read_prefix(root).host.links["bin/hip"].target == "lib/libamdhip64.so.6"


@pytest.mark.parametrize("text", ["none/../x", "x/../x"], ids=["nothing", "a-file"])
def test_dots_behind_what_is_no_directory(root: Path, text: str) -> None:
    write(root / "x", "x")
    assert not link(root / "link", text).exists()
    assert read_prefix(root).host.links["link"].kind == "dangling"


PLACES = st.sampled_from(["a", "b", "d/a", "d/b", "e/a", "e/f/a", "e/f/b"])
TEXTS = st.sampled_from(
    ["a", "b", "d", "..", "../d", "../e/f", "e/f", "f", "./f/", "a/b", "../a/b", "d/a/file"]
    + ["x", "file", "../x", "../../x", "d/file", "/x", "none", "../a/../x", "x/.."]
)


@settings(max_examples=150, deadline=None)
@example({"d/a": "../../x"})
@given(st.dictionaries(PLACES, TEXTS, max_size=5))
def test_links_lead_where_the_kernel_says(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("tree") / "deep" / "rocm"
    write(root / "lib/libamdhip64.so.6", "x")
    for path in ("x", "d/file", "e/f/file"):
        write(root / path, "x")
    for path, text in links.items():
        (root / path).symlink_to(text)
    found = read_prefix(root, version="1").host.links
    for path in links:
        end = root / path
        real = Path(os.path.realpath(end))
        # The root itself is no place in the tree, a link to it counts as one that leads nowhere.
        inside = end.exists() and root in real.parents
        assert (found[path].target if found[path].kind != "dangling" else None) == (
            real.relative_to(root).as_posix() if inside else None
        ), (path, links)


@contextmanager
def unprivileged(root: Path) -> Iterator[Path]:
    """A copy of `root` where anyone may look, and a user who may not read everything."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        copy = shutil.copytree(root, Path(name) / "rocm")
        try:
            yield copy
        finally:
            become_root_again()


def become_nobody() -> None:
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 0)


def become_root_again() -> None:
    if os.getresuid()[2] == 0:
        os.setresuid(0, 0, 0)


def test_an_unreadable_file_is_named(root: Path) -> None:
    with unprivileged(root) as copy:
        write(copy / "lib/secret", "x").chmod(0)
        become_nobody()
        with pytest.raises(InvalidPrefix, match="lib/secret cannot be read"):
            read_prefix(copy)


def test_an_unreadable_directory_is_named(root: Path) -> None:
    with unprivileged(root) as copy:
        write(copy / "lib/secret/file", "x")
        (copy / "lib/secret").chmod(0)
        become_nobody()
        try:
            with pytest.raises(InvalidInput, match="secret"):
                read_prefix(copy)
        finally:
            become_root_again()
            (copy / "lib/secret").chmod(0o755)


def test_a_pipe_is_no_part_of_a_rocm(root: Path) -> None:
    os.mkfifo(root / "lib/pipe")
    with pytest.raises(InvalidPrefix, match="lib/pipe is neither"):
        read_prefix(root)


def test_a_name_that_is_no_text_is_refused_by_name(root: Path) -> None:
    write(Path(os.fsdecode(os.fsencode(root) + b"/share/latin-\xe9")), "x")
    with pytest.raises(InvalidPrefix, match="latin-"):
        read_prefix(root)


def test_targets_come_from_the_code_objects(root: Path) -> None:
    trees.library(root / "lib/librocfft.so.0", targets=["gfx1030", "gfx906:xnack-", "gfx90a:xnack+"])
    trees.library(root / "lib/librocrand.so.1", targets=["gfx90a:xnack-"])
    trees.library(root / "lib/libplain_gfx942.so")
    write(root / "lib/rocblas/library/Kernels_gfx1100.hsaco", trees.bundle(["gfx1100"]))
    prefix = read_prefix(root)
    assert prefix.code == {
        "lib/librocfft.so.0": {"gfx1030", "gfx906:xnack-", "gfx90a:xnack+"},
        "lib/librocrand.so.1": {"gfx90a:xnack-"},
    }
    assert prefix.targets == ("gfx906", "gfx90a", "gfx1030")
    assert set(prefix.host.elves) == {"lib/librocfft.so.0", "lib/librocrand.so.1", "lib/libplain_gfx942.so"}


def test_object_files_and_foreign_elf_files_are_data(root: Path) -> None:
    source = write(root / "a.c", "int a;\n")
    trees.gcc("-c", "-o", root / "lib/a.o", source)
    write(root / "lib/32bit.so", b"\x7fELF\x01\x01" + b"\0" * 58)
    write(root / "lib/short.so", b"\x7fELF")
    assert read_prefix(root).host.elves == {}


def test_executable(root: Path) -> None:
    script(root / "bin/hipcc", "#!/bin/sh\n")
    files = read_prefix(root).host.files
    assert files["bin/hipcc"].executable
    assert not files[".info/version"].executable
