"""What the rules say of Linux libraries: each by itself, and where it looks for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from facts_by_hand import CONTRACT, dll, elf, members, said, wheel

from rocwright.check.context import Context, Request
from rocwright.check.facts import ElfFacts
from rocwright.check.rules.elf import RULES
from rocwright.check.run import check_paths


def rules(path: Path, rule: str) -> list[tuple[str, ...]]:
    """The members of each finding of a rule on a real file."""
    return [one.members for one in check_paths([path]).findings if one.rule == rule]


# -- by itself


def test_a_file_that_cannot_be_read_is_told_with_the_reason() -> None:
    broken = ElfFacts("pkg/a.so", problem="a.so: the file ends inside the ELF header")
    assert said("elf-readable", wheel("pkg", broken, elf("pkg/b.so"))) == [
        ("pkg/a.so", "a.so: the file ends inside the ELF header")
    ]


@pytest.mark.parametrize(
    ("platform", "machine", "cause"),
    [
        ("linux_x86_64", 62, None),
        ("manylinux_2_28_aarch64", 183, None),
        ("musllinux_1_2_x86_64", 62, None),
        ("manylinux_2_28_x86_64.manylinux_2_28_aarch64", 183, None),
        ("linux_x86_64", 183, "it is for aarch64, the wheel is for x86_64"),
        ("linux_x86_64", 3, "it is for i686, the wheel is for x86_64"),
        ("musllinux_1_2_aarch64", 62, "it is for x86_64, the wheel is for aarch64"),
        ("linux_x86_64", 247, "it is for machine 247, the wheel is for x86_64"),
        ("win_amd64", 62, "it is for Linux, the wheel is tagged for Windows"),
        # What no tag for Linux speaks of is not judged.
        ("any", 183, None),
        ("linux_vax", 75, None),
    ],
)
def test_the_machine_is_compared_with_the_tag(platform: str, machine: int, cause: str | None) -> None:
    facts = wheel("pkg", elf("pkg/a.so", machine=machine), platform=platform)
    assert said("elf-machine", facts) == ([] if cause is None else [("pkg/a.so", cause)])


def test_a_library_for_linux_beside_dlls_may_be_data() -> None:
    mixed = wheel("pkg", elf("pkg/a.so"), dll("pkg/b.dll"), platform="win_amd64")
    assert members("elf-machine", mixed) == []
    assert members("elf-machine", wheel("pkg", elf("pkg/a.so"), platform="win_amd64.linux_x86_64")) == []


def test_runtimes_that_a_compiler_links_into_programs_for_other_machines_are_no_mistake() -> None:
    runtime = "_rocm_sdk_core/lib/llvm/lib/clang/22/lib/i386-linux/libclang_rt.asan.so"
    assert members("elf-machine", wheel("rocm-sdk-core", elf(runtime, machine=3))) == []
    assert members("elf-machine", wheel("rocm-sdk-core", elf("_rocm_sdk_core/lib/liba.so", machine=3))) == [
        "_rocm_sdk_core/lib/liba.so"
    ]


def test_nothing_is_asked_of_object_files() -> None:
    made = elf(
        "pkg/a.o", "libnowhere.so", kind="rel", machine=183, stack=None, text_relocations=True, rpath="/opt"
    )
    facts = wheel("pkg", made)
    for rule in ("elf-machine", "elf-text-relocation", "elf-executable-stack", "elf-needed", "elf-manylinux"):
        assert members(rule, facts) == [], rule


@pytest.mark.parametrize(
    ("rule", "facts", "part"),
    [
        ("elf-text-relocation", {"text_relocations": True}, "code has to be changed"),
        ("elf-executable-stack", {"stack": "rwx"}, "asks for an executable stack"),
        ("elf-executable-stack", {"stack": None}, "no GNU_STACK header"),
        ("elf-dynamic", {"writable_dynamic": False}, "cannot be written"),
    ],
)
def test_what_a_loader_refuses_or_suffers_from(rule: str, facts: dict[str, Any], part: str) -> None:
    good = elf("pkg/good.so", "libc.so.6")
    bad = elf("pkg/bad.so", "libc.so.6", **facts)
    [(member, cause)] = said(rule, wheel("pkg", good, bad))
    assert member == "pkg/bad.so"
    assert part in cause


def test_a_static_program_may_be_silent_about_its_stack() -> None:
    static = ElfFacts("_rocm_sdk_core/bin/tool", kind="exec", stack=None, writable_dynamic=None)
    facts = wheel("rocm-sdk-core", static)
    assert members("elf-executable-stack", facts) == []
    assert members("elf-dynamic", facts) == []
    asking = ElfFacts("_rocm_sdk_core/bin/tool", kind="exec", stack="rwx")
    assert members("elf-executable-stack", wheel("rocm-sdk-core", asking)) == ["_rocm_sdk_core/bin/tool"]


@pytest.mark.parametrize(
    ("tag", "rules"),
    [
        ("cp312-cp312-macosx_11_0_arm64", []),
        ("cp312-cp312-macosx_10_13_universal2", []),
        ("cp312-cp312-linux_x86_64", ["elf-readable"]),
        ("cp312-cp312-musllinux_1_2_x86_64", ["elf-readable"]),
        ("cp312-cp312-win_amd64", ["elf-readable"]),
    ],
)
def test_libraries_of_macos_are_no_elf_files(tag: str, rules: list[str]) -> None:
    odd = ElfFacts("a/b.cpython-312-darwin.so", problem="it is named like a library, but is not an ELF file")
    facts = msgspec.structs.replace(wheel("a", odd), tags=frozenset({tag}))
    assert members("elf-readable", facts) == [odd.member for _ in rules]


# -- RPATH and RUNPATH


@pytest.mark.parametrize(
    ("member", "path", "rule"),
    [
        ("torch/lib/a.so", "$ORIGIN", None),
        ("torch/lib/a.so", "$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib", None),
        ("torch/lib/a.so", "${ORIGIN}/../..", None),
        ("a.so", "$ORIGIN/", None),
        ("torch/lib/a.so", "/opt/rocm/lib", "elf-absolute-path"),
        ("torch/lib/a.so", "$ORIGIN:/build/torch/lib", "elf-absolute-path"),
        ("torch/lib/a.so", "$ORIGIN/../../../lib", "elf-rpath"),
        ("a.so", "$ORIGIN/..", "elf-rpath"),
        ("torch/lib/a.so", "lib", "elf-rpath"),
        ("torch/lib/a.so", "$ORIGIN:", "elf-rpath"),  # the current directory
        ("torch/lib/a.so", "", None),  # of which the loader makes nothing
        ("torch/lib/a.so", ":", "elf-rpath"),
        ("torch/lib/a.so", "$LIB", "elf-rpath"),
        ("torch/lib/a.so", "$ORIGINAL/lib", "elf-rpath"),
        # A program beside site-packages may look anywhere in its environment, and not beyond.
        ("x-1.data/scripts/tool", "$ORIGIN/../lib/python3.12/site-packages/x", None),
        ("x-1.data/scripts/tool", "$ORIGIN/../../lib", "elf-rpath"),
        ("x-1.data/platlib/x/a.so", "$ORIGIN/../y", None),
        ("x-1.data/platlib/x/a.so", "$ORIGIN/../../y", "elf-rpath"),
    ],
)
@pytest.mark.parametrize("tag", ["rpath", "runpath"])
def test_each_entry_is_relative_and_stays_inside(member: str, path: str, rule: str | None, tag: str) -> None:
    facts = wheel("torch", elf(member, **{tag: path}))
    for one in ("elf-absolute-path", "elf-rpath"):
        assert members(one, facts) == ([member] if one == rule else []), one


def test_an_entry_that_leaves_the_installation_is_told_with_what_to_do() -> None:
    facts = wheel("torch", elf("torch/lib/a.so", rpath="$ORIGIN/../../../lib"))
    [rule] = [one for one in RULES if one.id == "elf-rpath"]
    [problem] = rule.check(facts, Context(CONTRACT, Request(), (facts,)))
    assert "inside site-packages" in problem.next_step


def test_the_cause_names_the_wrong_entries_only_and_not_all_of_many() -> None:
    path = "$ORIGIN:" + ":".join(f"/build/{number}" for number in range(20))
    [(_, cause)] = said("elf-absolute-path", wheel("torch", elf("torch/a.so", rpath=path)))
    assert "RPATH '/build/0:/build/1:/build/2:/build/3' and 16 more" in cause
    assert "$ORIGIN" not in cause


def test_an_empty_entry_is_told_for_what_it_means() -> None:
    [(_, cause)] = said("elf-rpath", wheel("torch", elf("torch/a.so", rpath="$ORIGIN:")))
    assert cause == (
        "it has RPATH '(empty)', which stands for the directory that the process happens to run in"
    )


def test_a_runpath_is_told_whatever_it_holds() -> None:
    [(member, cause)] = said("elf-runpath", wheel("torch", elf("torch/a.so", runpath="$ORIGIN")))
    assert member == "torch/a.so"
    assert "RUNPATH '$ORIGIN'" in cause
    assert members("elf-runpath", wheel("torch", elf("torch/a.so", rpath="$ORIGIN"))) == []


# -- where a library looks


CORE = wheel("rocm-sdk-core", elf("_rocm_sdk_core/lib/libamdhip64.so.7"))
HIP = "libamdhip64.so.7"


def libraries(rpath: str | None, **facts: Any) -> Any:
    blas = elf("_rocm_sdk_libraries/lib/librocblas.so.5", HIP, "libc.so.6", rpath=rpath, **facts)
    return wheel("rocm-sdk-libraries", blas, requires=["rocm-sdk-core==1"])


def test_a_library_finds_what_it_needs_through_its_own_rpath() -> None:
    assert said("elf-search-path", libraries("$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib"), CORE) == []
    [(member, cause)] = said("elf-search-path", libraries("$ORIGIN"), CORE)
    assert member == "_rocm_sdk_libraries/lib/librocblas.so.5"
    assert cause == "it needs libamdhip64.so.7, which is there, but not where it looks ($ORIGIN)"
    assert "(nowhere)" in said("elf-search-path", libraries(None), CORE)[0][1]


def test_a_runpath_hides_the_rpath() -> None:
    both = libraries("$ORIGIN/../../_rocm_sdk_core/lib", runpath="$ORIGIN")
    assert len(said("elf-search-path", both, CORE)) == 1


def test_the_loader_looks_for_the_name_of_the_file() -> None:
    """A library that is there under its full version is not found by its SONAME."""
    core = wheel("rocm-sdk-core", elf("_rocm_sdk_core/lib/libamdhip64.so.7.1.0", soname=HIP))
    assert len(said("elf-search-path", libraries("$ORIGIN/../../_rocm_sdk_core/lib"), core)) == 1
    assert said("elf-needed", libraries("$ORIGIN/../../_rocm_sdk_core/lib"), core) == []


def test_where_a_wheel_is_laid_out_by_scheme_its_installed_place_counts() -> None:
    core = wheel("rocm-sdk-core", elf("rocm_sdk_core-1.data/platlib/_rocm_sdk_core/lib/libamdhip64.so.7"))
    assert said("elf-search-path", libraries("$ORIGIN/../../_rocm_sdk_core/lib"), core) == []


def test_what_is_not_there_is_a_matter_of_elf_needed() -> None:
    alone = libraries("$ORIGIN")
    assert said("elf-search-path", alone) == []
    device = elf("_rocm_sdk_libraries/lib/libMIOpenCK_gfx942.so", HIP, rpath="$ORIGIN")
    part = wheel("rocm-sdk-device-gfx942", device, requires=["rocm-sdk-libraries==1"])
    # Over two steps, as installers go.
    assert members("elf-search-path", part, libraries("$ORIGIN"), CORE) == [device.member]


# -- system libraries


def test_a_copy_of_the_cxx_runtime_where_libraries_look() -> None:
    own = elf("torch/lib/libstdc++.so.6")
    user = elf("torch/lib/libtorch_cpu.so", "libstdc++.so.6", rpath="$ORIGIN")
    [(member, cause)] = said("elf-system-soname", wheel("torch", own, user))
    assert member == "torch/lib/libstdc++.so.6"
    assert (
        cause
        == "it takes the place of the system's libstdc++.so.6 in every process that loads libtorch_cpu.so"
    )


def test_a_runtime_that_only_another_wheel_looks_at() -> None:
    core = wheel("rocm-sdk-core", elf("_rocm_sdk_core/lib/x/libgcc_s.so.1"))
    torch = wheel("torch", elf("torch/lib/a.so", runpath="$ORIGIN/../../_rocm_sdk_core/lib/x/"))
    assert members("elf-system-soname", core, torch) == ["_rocm_sdk_core/lib/x/libgcc_s.so.1"]
    assert members("elf-system-soname", core) == []


@pytest.mark.parametrize(
    ("member", "soname", "told"),
    [
        ("pkg/libs/libfoo.so", "libstdc++.so.6", True),  # by its SONAME
        ("pkg/libs/libm.so.6", None, True),  # by its file name
        ("pkg/libs/ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2", True),
        ("pkg/libs/libstdc++-1a2b3c4d.so.6.0.33", "libstdc++-1a2b3c4d.so.6.0.33", False),
        # Not one copy for all: systems may have them or not.
        ("pkg/libs/libz.so.1", "libz.so.1", False),
        ("pkg/libs/libgomp.so.1", "libgomp.so.1", False),
    ],
)
def test_which_names_are_the_systems_own(member: str, soname: str | None, told: bool) -> None:
    facts = wheel("pkg", elf(member, soname=soname), elf("pkg/a.so", rpath="$ORIGIN/libs"))
    assert members("elf-system-soname", facts) == ([member] if told else [])


# -- real files


def test_real_libraries_at_the_door(build: Any, library: Any) -> None:
    files = {
        "triton/__init__.py": "",
        "triton/_C/libtriton.so": library("-Wl,-rpath,/home/builder/triton/lib", "-Wl,--no-as-needed", "-lc"),
    }
    path = build("triton", "3.5", files)
    assert rules(path, "elf-absolute-path") == [("triton/_C/libtriton.so",)]
    assert rules(path, "elf-needed") == []
    assert rules(path, "elf-readable") == []
    assert rules(build("triton", "3.5", files, tag="cp311-cp311-linux_aarch64"), "elf-machine") == [
        ("triton/_C/libtriton.so",)
    ]


def test_a_good_file_for_a_32_bit_machine_is_readable_and_no_library_of_this_wheel(
    build: Any, library: Any
) -> None:
    old = bytearray(library())
    old[4], old[18] = 1, 3
    runtime = "_rocm_sdk_core/lib/llvm/lib/clang/22/lib/linux/libclang_rt.asan-i386.so"
    for member, told in ((runtime, []), ("_rocm_sdk_core/lib/libx.so", [("_rocm_sdk_core/lib/libx.so",)])):
        path = build("rocm_sdk_core", "7", {member: bytes(old)}, tag="py3-none-linux_x86_64")
        assert rules(path, "elf-readable") == []
        assert rules(path, "elf-machine") == told
