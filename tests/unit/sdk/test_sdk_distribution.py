"""The pattern language, the placing of files and links, and how this machine's distribution is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data.overlay import parse_overlay
from rocwright.errors import Unreachable, UsageError
from rocwright.model.patterns import compile_pattern
from rocwright.sdk.intake.distribution import (
    Distribution,
    MapRule,
    distributions,
    named_distribution,
    place,
    this_distribution,
)
from rocwright.sdk.links import follow, normalise, relative_link


def table(*rules: tuple[str, str], links: dict[str, str] | None = None) -> Distribution:
    return Distribution(
        id="test",
        version_id="1",
        rocm_version="1.2.3",
        triplet="x86_64-linux-gnu",
        family="test1",
        packages=("a",),
        map=tuple(MapRule(source, target) for source, target in rules),
        links=links or {},
    )


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("lib/*", "lib/a", True),
        ("lib/*", "lib/a/b", False),
        ("lib/**", "lib/a/b", True),
        ("lib/**", "lib", False),
        ("**.a", "lib/x/liba.a", True),
        ("**.a", "lib/x/liba.ab", False),
        ("lib{a,b}.so*", "libb.so.1", True),
        ("lib{a,b}.so*", "libc.so.1", False),
        ("lib{a,b}.so*", "lib{a,b}.so", False),
        ("lib{icu*,z}.so*", "libicudata.so.72", True),
        ("lib{icu*,z}.so*", "libzstd.so.1", False),
        # A dot, a plus and a bracket are themselves.
        ("lib/a.so", "lib/aXso", False),
        ("bin/clang++", "bin/clang++", True),
        ("bin/x[1]", "bin/x1", False),
        ("**/cmake/**", "lib/cmake/hip/hip-config.cmake", True),
    ],
)
def test_a_star_stays_in_its_directory_and_two_stars_do_not(pattern: str, path: str, fits: bool) -> None:
    assert bool(compile_pattern(pattern, named=False).fullmatch(path)) is fits


def test_the_first_rule_that_matches_wins_even_when_it_leaves_the_file_out() -> None:
    rows = table(("lib/x/secret.so", ""), ("lib/x/**", "lib/y/**"), ("lib/**", "other/**"))
    assert rows.destination("usr/lib/x/secret.so") is None
    assert rows.destination("usr/lib/x/a/b.so") == "lib/y/a/b.so"
    assert rows.destination("usr/lib/z") == "other/z"


def test_the_merged_usr_is_the_same_place_and_an_unclaimed_path_is_left_out() -> None:
    rows = table(("lib/*", "lib/"))
    assert rows.destination("lib/libz.so.1") == rows.destination("usr/lib/libz.so.1") == "lib/libz.so.1"
    assert rows.destination("etc/passwd") is None


def test_references_carry_what_braces_and_stars_matched() -> None:
    rows = table(
        ("share/{hip,rocm}/**", "share/{1}/**"),
        ("share/doc/*/copyright", "share/doc/{1}/copyright"),
        ("opt/*/{a,b}/**", "{2}/{1}/**"),
    )
    assert rows.destination("usr/share/rocm/x/y") == "share/rocm/x/y"
    assert rows.destination("usr/share/doc/hipcc/copyright") == "share/doc/hipcc/copyright"
    assert rows.destination("opt/v1/b/deep/file") == "b/v1/deep/file"


def test_two_stars_are_no_numbered_group() -> None:
    assert table(("**/doc/*/copyright", "doc/{1}")).destination("share/doc/hipcc/copyright") == "doc/hipcc"


def test_a_directory_target_may_hold_a_reference() -> None:
    assert table(("share/doc/*/copyright", "doc/{1}/")).destination("share/doc/a/copyright") == (
        "doc/a/copyright"
    )


def test_a_file_name_with_stars_or_braces_is_carried_over_as_it_is() -> None:
    rows = table(("a/*/**", "b/{1}/**"))
    assert rows.destination("a/x/weird-{1}-**-name") == "b/x/weird-{1}-**-name"


# Where Debian 12's files belong, written down from its package contents.
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("usr/lib/x86_64-linux-gnu/libamdhip64.so.5.2.21153", "lib/libamdhip64.so.5.2.21153"),
        ("usr/lib/x86_64-linux-gnu/libLLVM-15.so.1", "lib/llvm/lib/libLLVM-15.so.1"),
        ("usr/lib/x86_64-linux-gnu/libclang-cpp.so.15", "lib/llvm/lib/libclang-cpp.so.15"),
        ("usr/lib/x86_64-linux-gnu/libdrm_amdgpu.so.1.0.0", "lib/rocm_sysdeps/lib/libdrm_amdgpu.so.1.0.0"),
        ("usr/lib/x86_64-linux-gnu/libicudata.so.72.1", "lib/rocm_sysdeps/lib/libicudata.so.72.1"),
        ("lib/x86_64-linux-gnu/libz.so.1.2.13", "lib/rocm_sysdeps/lib/libz.so.1.2.13"),
        ("usr/lib/x86_64-linux-gnu/librocsparse.so.0.1", "lib/librocsparse.so.0.1"),
        ("usr/lib/x86_64-linux-gnu/cmake/hip/hip-config.cmake", "lib/cmake/hip/hip-config.cmake"),
        ("usr/lib/x86_64-linux-gnu/amdgcn/bitcode/ocml.bc", "lib/llvm/amdgcn/bitcode/ocml.bc"),
        ("usr/lib/x86_64-linux-gnu/pkgconfig/libdrm.pc", None),
        ("usr/lib/llvm-15/lib/LLVMPolly.so", None),
        ("usr/lib/llvm-15/bin/clang", "lib/llvm/bin/clang"),
        ("usr/bin/hipcc", "bin/hipcc"),
        ("usr/bin/clang-15", None),
        ("usr/include/hip/hip_version.h", "include/hip/hip_version.h"),
        ("usr/share/hip/version", "share/hip/version"),
        ("usr/share/man/man1/hipcc.1.gz", None),
        ("usr/share/doc/hipcc/copyright", "share/doc/hipcc/copyright"),
        ("usr/share/doc/hipcc/changelog.Debian.gz", None),
        ("etc/anything", None),
    ],
)
def test_debian_files_go_where_a_rocm_prefix_has_them(path: str, expected: str | None) -> None:
    (debian,) = [row for row in distributions() if (row.id, row.version_id) == ("debian", "12")]
    assert debian.destination(path) == expected


RULES = (("lib/gnu/**", "lib/**"), ("bin/*", "bin/"), ("share/old/**", ""), ("lib/**", "lib64/**"))


def test_links_point_to_where_their_target_went() -> None:
    placed = place(
        table(*RULES),
        ["usr/lib/gnu/liba.so.1.2", "usr/lib/other/tool"],
        {
            "usr/lib/gnu/liba.so.1": "liba.so.1.2",
            "usr/lib/gnu/liba.so": "liba.so.1",  # a chain
            "usr/bin/tool": "../lib/other/tool",  # lib/other moves to lib64/other
            "usr/bin/again": "/usr/lib/other/tool",  # absolute: from the root of the unpacked tree
        },
    )
    assert placed.files == (
        ("usr/lib/gnu/liba.so.1.2", "lib/liba.so.1.2"),
        ("usr/lib/other/tool", "lib64/other/tool"),
    )
    assert placed.links == (
        ("bin/again", "../lib64/other/tool"),
        ("bin/tool", "../lib64/other/tool"),
        ("lib/liba.so", "liba.so.1"),
        ("lib/liba.so.1", "liba.so.1.2"),
    )
    assert placed.left_out == 0


def test_a_link_that_would_point_to_itself_or_nowhere_is_dropped_and_counted() -> None:
    placed = place(
        table(*RULES),
        ["usr/lib/gnu/x/data", "usr/share/old/file"],
        {
            "usr/lib/x": "gnu/x",  # a directory: both are lib64/x and lib/x, kept
            "usr/bin/old": "../share/old/file",  # its target is left out
            "usr/bin/gone": "not-there",
            "usr/share/doc/link": "../old/file",  # is itself left out
        },
    )
    assert dict(placed.links) == {"lib64/x": "../lib/x"}
    assert placed.left_out == 3


def test_a_link_to_the_other_copy_of_itself_is_dropped() -> None:
    placed = place(table(("lib/gnu/*", "lib/"), ("lib/*", "lib/")), ["usr/lib/gnu/a"], {"usr/lib/a": "gnu/a"})
    assert placed.links == ()
    assert placed.left_out == 1


def test_links_of_the_table_are_added_where_their_target_is_there() -> None:
    rows = table(
        ("bin/*", "lib/llvm/bin/"), links={"llvm": "lib/llvm", "bin/cc": "../lib/llvm/bin/clang", "z": "no"}
    )
    placed = place(rows, ["usr/bin/clang"], {})
    assert dict(placed.links) == {"bin/cc": "../lib/llvm/bin/clang", "llvm": "lib/llvm"}


def test_debians_compiler_has_the_names_that_a_rocm_gives_it() -> None:
    debian = named_distribution("debian-12")
    real = "usr/lib/llvm-15/bin"
    links = {f"{real}/{name}": "clang" for name in ("clang++", "clang-cl", "clang-cpp")}
    placed = dict(place(debian, [f"{real}/clang"], links).links)
    assert {name: text for name, text in placed.items() if name.startswith("bin/amd")} == {
        "bin/amdclang": "../lib/llvm/bin/clang",
        "bin/amdclang++": "../lib/llvm/bin/clang++",
        "bin/amdclang-cl": "../lib/llvm/bin/clang-cl",
        "bin/amdclang-cpp": "../lib/llvm/bin/clang-cpp",
    }


def test_a_link_whose_own_target_is_dropped_is_dropped_too() -> None:
    placed = place(table(("bin/*", "bin/")), ["usr/bin/real"], {"usr/bin/a": "b", "usr/bin/b": "gone"})
    assert placed.links == ()


def test_links_in_a_circle_are_dropped() -> None:
    placed = place(table(("bin/*", "bin/")), ["usr/bin/real"], {"usr/bin/a": "b", "usr/bin/b": "a"})
    assert placed.links == ()


def test_a_table_link_does_not_displace_a_packaged_file() -> None:
    rows = table(("bin/*", "bin/"), links={"bin/amdclang": "clang"})
    placed = place(rows, ["usr/bin/amdclang", "usr/bin/clang"], {})
    assert "bin/amdclang" not in dict(placed.links)


def test_a_packaged_link_does_not_displace_a_packaged_file() -> None:
    rows = table(("lib/gnu/*", "lib/"), ("lib/*", "lib/"))
    placed = place(rows, ["usr/lib/gnu/a", "usr/lib/b"], {"usr/lib/a": "b"})
    assert placed.links == ()
    assert placed.left_out == 1


NAMES = st.text("abc. -é", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)


@given(PATHS, PATHS)
def test_a_relative_link_leads_to_its_target(path: str, target: str) -> None:
    assert normalise(path, relative_link(path, target)) == target


@given(st.data())
def test_relative_links_are_what_the_standard_library_says(data: st.DataObject) -> None:
    import posixpath

    path, target = data.draw(PATHS), data.draw(PATHS)
    # A target that lies above the link's directory is spelled by its own name, relpath's shortest is `..`.
    if (path + "/").startswith(target + "/"):
        return
    assert relative_link(path, target) == posixpath.relpath(target, posixpath.dirname(path) or ".")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("lib/a", "b", "lib/b"),
        ("lib/x/a", "../b", "lib/b"),
        ("lib/a", "./x//y/", "lib/x/y"),
        ("a", "lib", "lib"),
        ("lib/a", "..", ""),
        ("lib/a", "../../b", None),
        ("a", "..", None),
    ],
)
def test_normalise(path: str, text: str, expected: str | None) -> None:
    assert normalise(path, text) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("plain/file", "plain/file"),
        ("a", "d/e/x"),  # a link to a link to a file below a link
        ("dir/sub/y", "d/e/sub/y"),
        ("dir/../z", "d/z"),  # `..` from where the link leads, not from where it lies
        ("none/../z", None),
        ("loop", None),
        ("absolute", None),
        ("out", None),
        ("chain0", None),  # 41 links; Linux follows 40
        ("chain1", "end"),
    ],
)
def test_a_link_is_followed_to_where_it_ends(path: str, expected: str | None) -> None:
    links = {"a": "b", "b": "dir/x", "dir": "d/e", "loop": "loop", "absolute": "/x", "out": "d/../../x"}
    links |= {f"chain{number}": f"chain{number + 1}" for number in range(40)} | {"chain40": "end"}
    assert follow(path, links, {"plain", "d", "d/e", "d/e/sub"}) == expected


def test_debian_12_is_known(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n# a=b\n\n')
    assert (found := this_distribution(release)).id == "debian"
    assert found.rocm_version == "5.2.3"
    assert "libamdhip64-dev" in found.packages


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("ID=debian\nVERSION_ID=13\n", "debian-13", "5.7.1"),
        # Debian's sid, and testing, say no version.
        ("ID=debian\nVERSION_CODENAME=forky\n", "debian-sid", "7.2.4"),
    ],
)
def test_a_newer_machine_has_its_own_distribution(tmp_path: Path, text: str, name: str, version: str) -> None:
    (tmp_path / "os-release").write_text(text)
    found = this_distribution(tmp_path / "os-release")
    assert (found.name, found.rocm_version) == (name, version)


def test_a_distribution_is_found_by_its_name() -> None:
    assert named_distribution("debian-sid").rocm_version == "7.2.4"
    with pytest.raises(UsageError) as caught:
        named_distribution("debian-11")
    assert "debian-12, debian-13, debian-sid" in (caught.value.next_step or "")


def test_rows_share_the_map_and_say_their_compiler() -> None:
    sid = named_distribution("debian-sid")
    assert sid.links["lib/llvm-22"] == "llvm"
    assert sid.links["lib/llvm/bin/clang++-22"] == "clang++"
    assert not any("{" in text for pair in sid.links.items() for text in pair)
    # A row that does not say its compiler has no link with its name.
    overlay = parse_overlay(
        '[[distributions.distribution]]\nid = "a"\nversion_id = "1"\nrocm_version = "6.0"\nfamily = "a"\n'
        'packages = []\nsystem = ["own"]\nlinks = { llvm = "mine" }\n'
        '[[distributions.distribution.map]]\nfrom = "bin/**"\nto = "own/**"\n',
        where="rocwright.toml",
    )
    mine = named_distribution("a-1", overlay)
    assert mine.links["llvm"] == "mine"
    assert not any("llvm-" in path for path in mine.links)
    # Its own rows come first, and what all share behind.
    assert mine.destination("usr/bin/hipcc") == "own/hipcc"
    assert mine.destination("usr/include/hip/hip.h") == "include/hip/hip.h"
    assert {"own", "libc6"} <= set(mine.system)


# Where the files of sid's ROCm 7.2 belong, written down from its package contents.
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode/ocml.bc", "lib/llvm/amdgcn/bitcode/ocml.bc"),
        ("usr/lib/llvm-22/bin/llvm-objdump", None),
        ("usr/lib/llvm-22/bin/llvm-readelf", "lib/llvm/bin/llvm-readelf"),
        ("usr/lib/x86_64-linux-gnu/libMIOpen.so.1.0", "lib/libMIOpen.so.1.0"),
        ("usr/lib/x86_64-linux-gnu/librccl.so.1.0", "lib/librccl.so.1.0"),
        ("usr/lib/x86_64-linux-gnu/liboam.so.7.8", "lib/liboam.so.7.8"),
        ("usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1.18.0", "lib/libhsa-runtime64.so.1.18.0"),
        ("usr/lib/x86_64-linux-gnu/libdevice_conv_operations.a", "lib/libdevice_conv_operations.a"),
        ("usr/lib/x86_64-linux-gnu/libLLVM.so.22.1", "lib/llvm/lib/libLLVM.so.22.1"),
        (
            "usr/lib/x86_64-linux-gnu/libboost_atomic.so.1.90.0",
            "lib/rocm_sysdeps/lib/libboost_atomic.so.1.90.0",
        ),
        ("usr/lib/x86_64-linux-gnu/libfmt.so.11", "lib/rocm_sysdeps/lib/libfmt.so.11"),
        ("usr/lib/x86_64-linux-gnu/rocblas/5/library/a.dat", "lib/rocblas/5/library/a.dat"),
        ("usr/lib/x86_64-linux-gnu/hipsparselt/library/a.dat", "lib/hipsparselt/library/a.dat"),
        ("usr/share/miopen/db/gfx942130.db.txt", "share/miopen/db/gfx942130.db.txt"),
        ("usr/include/ck/ck.hpp", "include/ck/ck.hpp"),
        ("usr/bin/rcclras", "bin/rcclras"),
        ("usr/lib/python3/dist-packages/rsmiBindings.py", None),
    ],
)
def test_files_of_sid_go_where_a_rocm_prefix_has_them(path: str, expected: str | None) -> None:
    assert named_distribution("debian-sid").destination(path) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('PRETTY_NAME="Fedora Linux 42"\nID=fedora\nVERSION_ID=42\n', "Fedora Linux 42"),
        ("PRETTY_NAME='Debian GNU/Linux 11'\nID=debian\nVERSION_ID=11\n", "Debian GNU/Linux 11"),
        ("ID=other\n", "this system"),
        ("", "this system"),
        (None, "this system"),
    ],
)
def test_an_unknown_system_hears_which_are_known(tmp_path: Path, text: str | None, name: str) -> None:
    release = tmp_path / "os-release"
    if text is not None:
        release.write_text(text)
    with pytest.raises(Unreachable) as caught:
        this_distribution(release)
    assert name in caught.value.what
    assert "debian-12" in caught.value.what
    assert "--rocm-prefix" in (caught.value.next_step or "")
