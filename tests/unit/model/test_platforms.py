"""What systems bring of their own: the table, and how it is asked."""

from __future__ import annotations

import pytest

from rocwright.data import load_table, parse_table
from rocwright.errors import InvalidData
from rocwright.model.platforms import Platforms, RocmLibraries, numbers

TABLE = load_table("platforms", Platforms)
ROCM = load_table("packages", RocmLibraries)


def test_rows_of_manylinux_go_up_and_describe_a_machine_each() -> None:
    glibc = [numbers(row.glibc) for row in TABLE.manylinux]
    assert glibc == sorted(set(glibc))
    assert glibc[0] == (2, 5)
    assert all("x86_64" in row.symbols for row in TABLE.manylinux)
    for before, after in zip(TABLE.manylinux, TABLE.manylinux[1:], strict=False):
        for machine, limits in before.symbols.items():
            for prefix in set(limits) - {"GLIBC"}:
                newer = numbers(after.symbols[machine][prefix])
                assert newer >= numbers(limits[prefix]), (after.glibc, machine, prefix)


@pytest.mark.parametrize(
    ("tag", "glibc", "cxx"),
    [
        ("manylinux1_x86_64", (2, 5), (3, 4, 8)),
        ("manylinux2010_x86_64", (2, 12), (3, 4, 13)),
        ("manylinux2014_x86_64", (2, 17), (3, 4, 19)),
        ("manylinux_2_17_x86_64", (2, 17), (3, 4, 19)),
        ("manylinux_2_28_aarch64", (2, 28), (3, 4, 24)),
        ("manylinux_2_39_x86_64", (2, 39), (3, 4, 33)),
    ],
)
def test_what_a_tag_promises(tag: str, glibc: tuple[int, ...], cxx: tuple[int, ...]) -> None:
    policy = TABLE.policy(tag)
    assert policy is not None
    assert (policy.newest["GLIBC"], policy.newest["GLIBCXX"]) == (glibc, cxx)
    assert "libc.so.6" in policy.libraries


@pytest.mark.parametrize(
    "tag",
    [
        "linux_x86_64",
        "musllinux_1_2_x86_64",
        "manylinux_2_4_x86_64",
        "manylinux2015_x86_64",
        "manylinux_2_28_vax",
        "any",
    ],
)
def test_tags_that_promise_nothing_known(tag: str) -> None:
    assert TABLE.policy(tag) is None


@pytest.mark.parametrize(
    ("file", "platform", "found"),
    [
        ("libamdhip64.so.7", "linux", ("amdhip64", "core")),
        ("libamdhip64.so", "linux", ("amdhip64", "core")),
        ("libhipblas.so.3", "linux", ("hipblas", "libraries")),
        ("libhipblaslt.so.1", "linux", ("hipblaslt", "libraries")),
        ("libMIOpen.so.1", "linux", ("miopen", "libraries")),
        ("libmiopen.so.1", "linux", None),
        ("libamdhip64_static.so", "linux", None),
        ("amdhip64_7.dll", "windows", ("amdhip64", "core")),
        ("AMDHIP64_7.DLL", "windows", ("amdhip64", "core")),
        ("hiprtc0701.dll", "windows", ("hiprtc", "core")),
        ("hiprtc-builtins0701.dll", "windows", ("hiprtc-builtins", "core")),
        ("libhipblas.dll", "windows", ("hipblas", "libraries")),
        ("rccl.dll", "windows", None),
        ("libamdhip64.so.7", "windows", None),
    ],
)
def test_which_short_name_a_file_has(file: str, platform: str, found: tuple[str, str] | None) -> None:
    assert ROCM.short_name(file, platform) == found


def test_providers_name_groups_that_packages_have() -> None:
    groups = {row.package for row in ROCM.library}
    assert {provider.rocm for provider in TABLE.provider if provider.rocm} == groups


def test_a_row_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(InvalidData, match="unknown field `runtimes`"):
        parse_table("[linux]\nruntimes = []\n", Platforms, where="rocwright.toml")
